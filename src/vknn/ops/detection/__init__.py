"""Detection layers: box decoding, non-maximum suppression, region proposals."""
