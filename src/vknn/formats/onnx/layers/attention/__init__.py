"""Attention, and what goes with it: rotary embeddings, caches, linear attention."""
