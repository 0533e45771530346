"""Elementwise operators: arithmetic, logic, activations."""
