"""Operators that find or place elements by indices."""
