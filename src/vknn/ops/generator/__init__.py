"""Operators of random generators that go on: numbers, and bits."""
