"""Language models trained by policy gradient on tasks that can be checked."""
