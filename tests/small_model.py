"""A small ncnn network on disk, for tests of what works on models."""

from __future__ import annotations

from pathlib import Path

from vknn.formats.ncnn.random_weights import write_random_weights

PARAM = """7767517
9 10
Input            data   0 1 data 0=8 1=8 2=3
Convolution      conv1  1 1 data conv1 0=6 1=3 4=1 5=1 6=162 9=1
Split            twice  1 2 conv1 left right
ConvolutionDepthWise dw 1 1 left dw 0=6 1=3 4=1 5=1 6=54 7=6
BinaryOp         sum    2 1 dw right sum 0=0
Pooling          pool   1 1 sum pool 0=1 4=1
InnerProduct     fc     1 1 pool fc 0=5 1=1 2=30
Softmax          prob   1 1 fc prob 0=0
Noop             out    1 1 prob out
"""
SHAPE = (3, 8, 8)


def write_small_model(folder: Path) -> Path:
    """Writes small.param and small.bin and gives the path of the first."""
    path = folder / "small.param"
    path.write_text(PARAM)
    write_random_weights(path, path.with_suffix(".bin"))
    return path
