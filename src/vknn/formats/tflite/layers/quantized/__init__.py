"""Operators on quantized tensors, and products of floats with 8-bit weights (hybrid)."""
