"""The arena: upload, seasons, matches, leaderboards; strangers' code plays without being trusted."""
