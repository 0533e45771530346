"""Detection layers: box decoding, sorting, non-maximum suppression."""
