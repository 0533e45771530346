"""Layers that read or write elements by index."""
