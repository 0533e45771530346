"""Nets of many layers, each with its own inputs, compared with expected outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import assert_close, shared_device
from tests.openvino_writer import Net, Port

from vknn.errors import ShapeError
from vknn.session import Session

BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]
PRECISIONS = {
    np.dtype(np.float32): "FP32", np.dtype(np.int64): "I64", np.dtype(np.int32): "I32",
    np.dtype(np.int16): "I16", np.dtype(np.int8): "I8", np.dtype(np.uint8): "U8",
}  # fmt: skip


@dataclass(frozen=True)
class Fixed:
    """An input that is a constant of the net."""

    array: np.ndarray


def fixed(*values: float, dtype: Any = np.int32) -> Fixed:
    """A constant vector."""
    return Fixed(np.array(values, dtype))


def scalar(value: float, dtype: Any = np.int32) -> Fixed:
    """A constant without axes."""
    return Fixed(np.array(value, dtype))


Input = np.ndarray | Fixed


@dataclass
class Many:
    """A net of single layers. ``tolerance``: of the largest magnitude of an output."""

    tolerance: float = 0.0
    net: Net = field(default_factory=Net)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    expected: dict[str, tuple[np.ndarray, str]] = field(default_factory=dict)

    def add(
        self,
        type_: str,
        inputs: Sequence[Input],
        expected: np.ndarray | Sequence[np.ndarray],
        attributes: Mapping[str, Any] | None = None,
        blobs: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """A layer. Its output ports have the shapes and precisions of ``expected``."""
        results = [expected] if isinstance(expected, np.ndarray) else list(expected)
        name = f"layer{len(self.net.layers)}"
        ports = [self._port(f"{name}_{i}", given) for i, given in enumerate(inputs)]
        self.net.layer(
            type_,
            ports,
            [r.shape for r in results],
            attributes,
            blobs,
            name=name,
            precision=PRECISIONS[results[0].dtype],
            precisions=[PRECISIONS[r.dtype] for r in results],
        )
        for i, result in enumerate(results):
            context = f"{type_} {attributes} {[np.shape(_array(i)) for i in inputs]}, output {i}"
            self.expected[name if len(results) == 1 else f"{name}.{i}"] = (result, context)

    def _port(self, name: str, given: Input) -> Port:
        if isinstance(given, Fixed):
            return self.net.const(given.array)
        self.feeds[name] = given
        return self.net.input(name, given.shape, PRECISIONS[given.dtype])

    def check(self, backend: str, folder: Path, host: Sequence[str] = ()) -> None:
        """Runs the net; on a device nothing may be computed on the host."""
        path = self.net.save(folder)
        with Session(path, device="numpy" if backend == "numpy" else shared_device()) as session:
            results = session.run(self.feeds)
            placement = set(session.placement.values())
        if backend != "numpy" and not host:
            assert placement <= {"vulkan"}, session.placement
        assert set(results) == set(self.expected)
        for name, (expected, context) in self.expected.items():
            assert_close(results[name], expected, self.tolerance, context)


def _array(given: Input) -> np.ndarray:
    return given.array if isinstance(given, Fixed) else given


def refuse(
    folder: Path,
    type_: str,
    inputs: Sequence[Input],
    shapes: Sequence[tuple[int, ...]],
    attributes: Mapping[str, Any] | None,
    match: str,
    error: type[Exception] = ShapeError,
    blobs: Mapping[str, np.ndarray] | None = None,
) -> None:
    """A layer that contradicts itself is one clear error, which names it."""
    many = Many()
    ports = [many._port(f"x{i}", given) for i, given in enumerate(inputs)]
    many.net.layer(type_, ports, list(shapes), attributes, blobs, name="wrong")
    path = many.net.save(folder, f"wrong{len(list(folder.iterdir()))}")
    with pytest.raises(error, match=match) as caught, Session(path, device="numpy") as session:
        session.run(many.feeds)
    assert "wrong" in str(caught.value)
