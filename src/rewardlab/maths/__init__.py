"""Pure formulas: arrays in, arrays out; every reduction takes an optional mask. Used by `algos/` and by `llm/`."""
