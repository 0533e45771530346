"""Attention: MultiHeadAttention, SDPA, RotaryEmbed."""
