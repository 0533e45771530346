"""Operators that move elements: reshape, slice, pad, transpose and others."""
