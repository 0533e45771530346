"""Loops: TensorIterator and its body."""
