"""Operators whose places are data: Gather, ScatterND, TopK, ArgMax, NonZero."""
