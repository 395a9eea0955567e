"""Hyper-parameter search: many trials of one spec, most of them stopped early, the best written down as a spec."""
