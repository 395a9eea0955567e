"""Policies of CoGsGuard: the API, the syntax that names them, and the scripted ones."""
