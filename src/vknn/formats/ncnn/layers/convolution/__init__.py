"""Convolutions, transposed and deformable ones, and im2col."""
