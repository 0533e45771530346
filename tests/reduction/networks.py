"""A small ncnn network with a layer ``Faulty`` in the midst of it (``plants/faulty.py``)."""

from __future__ import annotations

from pathlib import Path

from vknn.formats.ncnn.random_weights import write_random_weights

PLANTS = Path(__file__).parent / "plants"
FAULTY = PLANTS / "faulty.py"
PARAM = """7767517
10 11
Input            data   0 1 data 0=18 1=17 2=3
Convolution      conv1  1 1 data conv1 0=12 1=3 4=1 5=1 6=324 9=1
Split            twice  1 2 conv1 left right
Convolution      conv2  1 1 left conv2 0=12 1=3 4=1 5=1 6=1296
{layer} middle 1 1 conv2 middle {options}
BinaryOp         sum    2 1 middle right sum 0=0
Pooling          pool   1 1 sum pool 0=0 1=2 2=2
Convolution      conv3  1 1 pool conv3 0=8 1=1 5=1 6=96
InnerProduct     fc     1 1 conv3 fc 0=5 1=1 2=3240
Softmax          prob   1 1 fc prob 0=0
"""


def write_network(folder: Path, mode: int | None = None) -> Path:
    """Writes net.param and net.bin; ``mode`` of the faulty layer, None: a ReLU in its place."""
    path = folder / "net.param"
    layer, options = ("ReLU", "") if mode is None else ("Faulty", f"0={mode}")
    path.write_text(PARAM.format(layer=layer, options=options))
    if mode is None:
        write_random_weights(path, path.with_suffix(".bin"))
    else:
        plain = folder / "plain.param"
        plain.write_text(PARAM.format(layer="ReLU", options=""))
        write_random_weights(plain, path.with_suffix(".bin"))
        plain.unlink()
    return path
