"""FULLY_CONNECTED by weights with scales of blocks, against a product of what the weights mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.tflite_writer import Net, Table

import vknn

LOWS = {"int4": -8, "int2": -2, "int8": -128}
#: Units, depth and sizes of blocks: whole words, parts of them, odd ones, one block a row.
QUICK = [(5, 64, 32), (7, 40, 8), (5, 21, 7), (11, 36, 12)]
SLOW = [(1, 32, 32), (13, 96, 16), (17, 28, 4), (3, 15, 5), (31, 33, 33), (2, 14, 1)]
SLOW += [(19, 256, 128), (5, 48, 24)]
SHAPES = [*QUICK, *(pytest.param(shape, marks=pytest.mark.slow) for shape in SLOW)]
Made = tuple[Net, np.ndarray, np.ndarray]


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def backend(request: pytest.FixtureRequest) -> str:
    """Where it is computed."""
    return str(request.param)


def net_of(
    shape: tuple[int, int, int], dtype: str, rows: tuple[int, ...], zeros: str | None,
    given: dict[str, Any], *, biased: bool = True,
) -> Made:  # fmt: skip
    """The net, its weights as float64 [units, depth] and its bias; ``zeros``: type of points."""
    (units, depth, size), rng = shape, np.random.default_rng(7)
    low = LOWS[dtype]
    codes = rng.integers(low, -low, (units, depth // size, size))
    steps = rng.uniform(0.01, 0.7, codes.shape[:2]).astype(np.float16)
    steps[-1, -1] = 0
    points = rng.integers(low, -low, codes.shape[:2]) if zeros else np.zeros(codes.shape[:2], int)
    net = Net()
    x = net.tensor("x", (*rows, depth))
    scales = net.tensor("scales", data=steps, dtype="float16")
    place = net.tensor("zeros", data=points, dtype=zeros) if zeros else -1
    details = {"scales": scales, "zero_points": place, "block_size": size}
    blocks = {"details": Table("BlockwiseQuantization", details)}
    quantization = Table("QuantizationParameters", blocks)
    w = net.tensor("w", data=codes.reshape(units, depth), dtype=dtype, quantization=quantization)
    shift = rng.standard_normal(units).astype(np.float32) * biased
    ends = [x, w, net.tensor("b", data=shift)] if biased else [x, w]
    kept = given.get("keep_num_dims", False)
    first = rows if kept else (int(np.prod(rows)),)
    net.inputs, net.outputs = [x], [net.tensor("y", (*first, units))]
    net.add("FULLY_CONNECTED", ends, net.outputs, given)
    real = (codes - points[..., None]) * steps[..., None].astype(np.float64)
    return net, real.reshape(units, depth), shift


def check(made: Made, rows: tuple[int, ...], folder: Path, backend: str, relu: int = 0) -> None:
    """Floats are not rounded, so that results are those of the real weights."""
    net, weights, shift = made
    path = folder / "net.tflite"
    path.write_bytes(net.file())
    x = np.random.default_rng(8).standard_normal((*rows, weights.shape[1])).astype(np.float32)
    with vknn.Session(path, device="numpy" if backend == "numpy" else shared_device()) as session:
        found = session.run({"x": x})["y"]
    expected = x.reshape(-1, x.shape[-1]).astype(np.float64) @ weights.T + shift
    most = 1e-5 * max(1.0, float(np.abs(expected).max()))
    if relu:
        expected = np.maximum(expected, 0)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=most)


@pytest.mark.parametrize("zeros", [None, "int8", "same"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["int4", "int2", "int8"])
def test_sizes(
    dtype: str, shape: tuple[int, int, int], zeros: str | None, tmp_path: Path, backend: str
) -> None:
    points = dtype if zeros == "same" else zeros
    for rows in ((1,), (3,)):
        check(net_of(shape, dtype, rows, points, {}), rows, tmp_path, backend)


@pytest.mark.parametrize("dtype", ["int4", "int2"])
@pytest.mark.parametrize("shape", [(13, 96, 16), (7, 40, 8), (5, 21, 7)], ids=str)
def test_rows(dtype: str, shape: tuple[int, int, int], tmp_path: Path, backend: str) -> None:
    """Of several axes, and so many that weights become floats; without a bias; activations."""
    for rows in ((2, 3), (2, 1, 19), (37,)):
        kept = {"keep_num_dims": True}
        check(net_of(shape, dtype, rows, None, kept), rows, tmp_path, backend)
        check(net_of(shape, dtype, rows, dtype, {}, biased=False), rows, tmp_path, backend)
        relu = {"fused_activation_function": 1}
        check(net_of(shape, dtype, rows, None, relu), rows, tmp_path, backend, relu=1)


def test_a_fault_shows(tmp_path: Path, backend: str) -> None:
    """A zero point that is one off."""
    net, weights, shift = net_of((5, 64, 32), "int4", (3,), "int8", {})
    weights[:, :32] += 0.3
    with pytest.raises(AssertionError):
        check((net, weights, shift), (3,), tmp_path, backend)
