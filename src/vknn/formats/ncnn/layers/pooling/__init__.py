"""Pooling of windows and of regions of interest."""
