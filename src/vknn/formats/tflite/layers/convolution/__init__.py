"""Convolution layers."""
