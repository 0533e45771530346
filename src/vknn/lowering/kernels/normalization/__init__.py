"""Normalization over channels, groups, rows and windows."""
