"""Operators on quantized integers, and conversion from and to floats."""
