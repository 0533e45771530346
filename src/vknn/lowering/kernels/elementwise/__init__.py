"""Elementwise operators: unary, binary, comparison, selection by condition, GLU."""
