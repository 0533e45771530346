"""Layers whose places are data."""
