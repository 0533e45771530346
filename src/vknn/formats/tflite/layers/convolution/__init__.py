"""Convolutions of two and three spatial axes."""
