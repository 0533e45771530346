"""Matrix products of floats and integers."""
