"""Operators that sample images."""
