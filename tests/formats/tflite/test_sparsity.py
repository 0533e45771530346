"""Sparse constants in small models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.formats.tflite.nets import run
from tests.tflite_writer import Net, Table

Save = Callable[[bytes], Path]


def adding(shape: tuple[int, ...], data: np.ndarray, sparsity: Table) -> bytes:
    """y = x + a sparse constant."""
    net = Net()
    x, y = net.tensor("x", shape), net.tensor("y", shape)
    c = net.tensor("c", shape, data=data, sparsity=sparsity)
    net.add("ADD", [x, c], [y])
    net.inputs, net.outputs = [x], [y]
    return net.file()


def test_a_scalar(save: Save) -> None:
    path = save(adding((), np.array(2.5, np.float32), Table("SparsityParameters", {})))
    assert run(path, x=np.float32(1.0))["y"] == 3.5
