"""Runs on other machines: one small contract, and who fulfils it (local, ssh, ray, dstack)."""
