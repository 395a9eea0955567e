"""What the arena remembers: one database, SQLite or PostgreSQL."""
