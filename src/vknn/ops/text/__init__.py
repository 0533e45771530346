"""Operators on text and hashes, which run on the host."""
