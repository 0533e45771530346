"""Layers on quantized integers."""
