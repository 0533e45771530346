"""Operators that move elements: Reshape, Transpose, Slice, Concat, Pad, Tile and their kin."""
