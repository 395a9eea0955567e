"""Maps: grids, their generation, and pools that compiled episodes start on."""
