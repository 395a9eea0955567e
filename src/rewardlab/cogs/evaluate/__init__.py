"""Policies play episodes, and what came of it is summed up."""
