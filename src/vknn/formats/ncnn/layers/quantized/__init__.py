"""Quantization: int8 products, blockwise weights, Quantize and its kin."""
