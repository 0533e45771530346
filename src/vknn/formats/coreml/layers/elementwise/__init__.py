"""Elementwise layers."""
