"""Pooling over windows, whole images and regions of interest."""
