"""Loops and their bodies."""
