"""Layers that move elements."""
