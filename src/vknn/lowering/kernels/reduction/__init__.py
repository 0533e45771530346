"""Reductions over axes, softmax, cumulative sums."""
