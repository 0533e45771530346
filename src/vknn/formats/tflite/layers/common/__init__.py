"""Helpers that several families share: windows, products, fused activations, quantization."""
