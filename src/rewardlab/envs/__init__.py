"""Environments: in JAX, or any of Gymnasium's outside it."""
