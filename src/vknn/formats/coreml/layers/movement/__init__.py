"""Layers that move, repeat or fill elements."""
