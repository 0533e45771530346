"""Padding and windows that several families share."""
