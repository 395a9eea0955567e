"""Views of an episode, and the files that keep one."""
