"""What may stand on a board, and the tables that show it."""
