"""Helpers that several families share: padding, windows, fused activations."""
