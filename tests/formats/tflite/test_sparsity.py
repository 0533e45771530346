"""Sparse constants in small models."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.nets import run
from tests.tflite_writer import Net, Table

from vknn.errors import VknnError
from vknn.session import Session

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


def test_zeros_beyond_all_memory(save: Save) -> None:
    """A row that lists nothing stands for as many zeros as a shape can say."""
    empty = [Table("Int32Vector", {"values": v}) for v in ([0, 0], [])]
    axes = [{"format": 1, "array_segments": empty[0], "array_indices": empty[1]}]
    axes.append({"format": 0, "dense_size": 1 << 16})
    content = {"traversal_order": [0, 1]}
    content["dim_metadata"] = [Table("DimensionMetadata", axis) for axis in axes]
    sparsity = Table("SparsityParameters", content)
    path = save(adding((1 << 15, 1 << 16), np.zeros(0, np.float32), sparsity))
    tracemalloc.start()
    with pytest.raises(VknnError, match=path.name):
        Session(path, device="numpy", memory_limit=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
