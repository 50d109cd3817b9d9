"""Numbers that ranks reported, read from every source, with sums and spreads."""
