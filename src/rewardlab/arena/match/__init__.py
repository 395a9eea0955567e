"""A match as a pure function of its job. The only part of the arena that knows the game."""
