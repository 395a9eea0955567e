"""Networks, what stands on them, and their optimisers."""
