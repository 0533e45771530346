"""Convolution, transposed and deformable convolution, Im2Col and Col2Im."""
