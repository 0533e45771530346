"""Operators with indices as data: gather, scatter, top-k, non-zero elements."""
