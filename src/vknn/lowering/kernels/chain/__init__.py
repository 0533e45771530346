"""Lowering of chains: several operators in one dispatch."""
