"""Small models that the tests change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from flatbuffers import flexbuffers
from tests.tflite_writer import Net

from vknn.formats.tflite import registry
from vknn.formats.tflite.context import Context
from vknn.graph import Value
from vknn.ops.elementwise import Add, Mul
from vknn.ops.movement.shape import Identity
from vknn.session import Session

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.float32([1, 2, 3])


def adding() -> Net:
    """a + [1, 2, 3] -> c; the tensors are a, c and b."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("a", (2, 3))], [net.tensor("c", (2, 3))]
    net.add("ADD", [0, net.tensor("b", data=B)], [1], {})
    return net


def run(path: Path, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    """The results of one run with NumPy."""
    with Session(path, device="numpy") as session:
        return session.run(feeds)


@contextmanager
def totals_operator() -> Iterator[None]:
    """Makes a custom operator known: its input, times "by", added to what it holds."""

    def convert(c: Context) -> Value:
        total = c.add(Add(), c.value(1), c.add(Mul(), c.x, c.scalar(c.options["by"])))
        c.assign_variable(1, total)
        return c.add(Identity(), total)

    with mock.patch.dict(registry._CUSTOM._types):
        registry.operator("TestTotals", inputs=2, custom=True)(convert)
        yield


def adding_up(by: float) -> Net:
    """x of two elements -> y, their sums over all runs, times ``by``."""
    net = Net()
    x, held = net.tensor("x", (2,)), net.tensor("held", (2,), is_variable=True)
    net.inputs, net.outputs = [x], [net.tensor("y", (2,))]
    options = np.frombuffer(flexbuffers.Dumps({"by": by}), np.uint8)
    net.add("CUSTOM", [x, held], net.outputs, custom_code="TestTotals", custom_options=options)
    return net
