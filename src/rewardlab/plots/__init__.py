"""Curves from run folders."""
