"""Models of one of StableHLO's operators, with regions, and their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.helpers import shared_device
from tests.tflite_writer import Net

from vknn.session import Session

#: Makes a region's operators from its arguments; gives its results.
Body = Callable[[Net, list[int]], list[int]]


@dataclass(frozen=True)
class Fixed:
    """An input that is a constant of the file."""

    array: np.ndarray


def region(net: Net, dtypes: Sequence[str], body: Body) -> int:
    """A subgraph of scalars; gives its number."""
    inner = net.another()
    inner.inputs = [inner.tensor(f"a{i}", (), dtype) for i, dtype in enumerate(dtypes)]
    inner.outputs = body(inner, list(inner.inputs))
    return len(net.others)


def one(code: str, options: dict[str, Any] | None = None, dtype: str = "") -> Body:
    """A region of one operator, whose result has ``dtype`` (default: that of the arguments)."""

    def body(net: Net, arguments: list[int]) -> list[int]:
        like = net.tensors[arguments[0]].fields
        result = net.tensor("r", (), dtype or "float32")
        if not dtype:
            net.tensors[result].fields["type"] = like["type"]
        net.add(code, arguments[:2], [result], options)
        return [result]

    return body


def single(
    code: str,
    inputs: Sequence[np.ndarray | Fixed],
    outputs: Sequence[tuple[tuple[int, ...], str]],
    options: dict[str, Any] | None = None,
    regions: Mapping[str, tuple[Sequence[str], Body]] | None = None,
) -> tuple[Net, dict[str, np.ndarray]]:
    """A model of one operator: inputs x0, x1... -> outputs y0, y1..., and what is to be fed.

    ``regions``: option -> types of the arguments and what makes the region.
    """
    net, ends, feeds = Net(), [], {}
    for i, given in enumerate(inputs):
        array = given.array if isinstance(given, Fixed) else given
        fixed = {"data": array} if isinstance(given, Fixed) else {}
        ends.append(net.tensor(f"x{i}", array.shape, str(array.dtype), **fixed))
        if not fixed:
            feeds[f"x{i}"] = array
    made = [net.tensor(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(outputs)]
    options = None if options is None and not regions else dict(options or {})
    for name, (dtypes, body) in (regions or {}).items():
        assert options is not None
        options[name] = region(net, dtypes, body)
    net.add(code, ends, made, options)
    net.inputs = [e for e, given in zip(ends, inputs, strict=True) if not isinstance(given, Fixed)]
    net.outputs = made
    return net, feeds


def run(path: Path, backend: str, file: bytes, feeds: Mapping[str, np.ndarray],
        on_device: bool = False) -> dict[str, np.ndarray]:  # fmt: skip
    """Results of one run. ``on_device``: on Vulkan no node of the graph may be on the host."""
    path.write_bytes(file)
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device) as session:
        results = session.run(dict(feeds))
        if on_device and backend == "vulkan":
            host = [name for name, side in session.placement.items() if side == "host"]
            assert not host, f"on the host: {host}"
    return results


def check(
    path: Path,
    backend: str,
    code: str,
    inputs: Sequence[np.ndarray | Fixed],
    expected: Sequence[np.ndarray],
    options: dict[str, Any] | None = None,
    regions: Mapping[str, tuple[Sequence[str], Body]] | None = None,
    *,
    on_device: bool = False,
) -> None:
    """The assertion that a model of one operator gives these arrays (see :func:`same`)."""
    outputs = [(array.shape, str(array.dtype)) for array in expected]
    net, feeds = single(code, inputs, outputs, options, regions)
    found = run(path, backend, net.file(), feeds, on_device)
    for number, wanted in enumerate(expected):
        same(found[f"y{number}"], wanted)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """The assertion of one output: floats within 1e-5 of the largest, others equal."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind == "f":
        finite = wanted[np.isfinite(wanted)]
        most = float(np.abs(finite.astype(np.float64)).max(initial=0.0))
        unit = 1e-3 if wanted.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(found, wanted, rtol=0, atol=unit * most)
    else:
        assert np.array_equal(found, wanted), (found.tolist(), wanted.tolist())


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small numbers of a type, of both signs where it has them."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 2, shape).astype(dtype)
    low = 0 if np.dtype(dtype).kind == "u" else -9
    return rng.integers(low, 10, shape).astype(dtype)
