"""Two networks, of which the second takes what the first computes: for tests of device tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import write
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]
#: The first network's input.
NUMBERS = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
#: Takes what the small network computes in its middle, "sum".
SECOND = """7767517
4 4
Input            data 0 1 data 0=8 1=8 2=6
Convolution      c    1 1 data c 0=5 1=3 4=1 5=1 6=270 9=1
Pooling          p    1 1 c p 0=1 4=1
Softmax          s    1 1 p s
"""


def write_two_models(folder: Path) -> tuple[Path, Path]:
    """Writes two networks: the first one's "sum" is the second one's input."""
    (folder / "second").mkdir()
    return write_small_model(folder), write(folder / "second", SECOND)


def written(folder: Path, made: Net, name: str = "net") -> Path:
    """Writes a TensorFlow Lite model."""
    path = folder / f"{name}.tflite"
    path.write_bytes(made.file())
    return path
