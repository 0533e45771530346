"""Attention and rotary embeddings."""
