"""CoGsGuard: a territory game of many agents: its rules, maps, missions, policies, views and diagnostics."""
