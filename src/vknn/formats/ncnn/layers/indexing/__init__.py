"""Layers with indices as data: Embed."""
