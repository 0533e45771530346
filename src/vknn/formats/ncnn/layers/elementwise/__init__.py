"""Elementwise layers: arithmetic and activations."""
