"""Quantized and hybrid products in settings that the vectors do not have, against the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.tflite.test_operators import check
from tests.tflite_writer import Net

Shape = tuple[int, ...]


def codes(shape: Shape, dtype: str, seed: int = 0) -> np.ndarray:
    """Integers of all sizes; weights of int8 have no -128."""
    info = np.iinfo(dtype)
    low = max(int(info.min), -127) if dtype == "int8" else int(info.min)
    return np.random.default_rng(seed).integers(low, info.max + 1, shape).astype(dtype)


def bias(net: Net, count: int, dtype: str, scale: float) -> int:
    values = np.random.default_rng(5).integers(-2000, 2000, count)
    return net.tensor("bias", data=values, dtype=dtype, scale=scale)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("activation", [0, 1])
def test_shuffled_weights(rows: int, activation: int, tmp_path: Path, backend: str) -> None:
    net, x = Net(), codes((rows, 32), "uint8")
    given = net.tensor("x", x.shape, "uint8", scale=0.02, zero_point=128)
    w = net.tensor("w", data=codes((8, 32), "uint8", 1), dtype="uint8", scale=0.01, zero_point=128)
    y = net.tensor("y", (rows, 8), "int16", scale=5e-4)
    kept = net.tensor("kept", x.shape, "uint8", scale=0.02, zero_point=128)
    operands = [given, w, bias(net, 8, "int32", 2e-4)]
    options = {"weights_format": 1, "fused_activation_function": activation}
    net.add("FULLY_CONNECTED", operands, [y, kept], options)
    net.inputs, net.outputs = [given], [y, kept]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_fully_connected_to_int16(dtype: str, tmp_path: Path, backend: str) -> None:
    net, x, wide = Net(), codes((3, 37), dtype), dtype == "int16"
    scale = 1e-4 if wide else 0.02
    given = net.tensor("x", x.shape, dtype, scale=scale, zero_point=0 if wide else 99)
    kind, zero = ("int8", 0) if wide else ("uint8", 140)
    weights = codes((11, 37), kind, 1)
    w = net.tensor("w", data=weights, dtype=kind, scale=0.01, zero_point=zero)
    y = net.tensor("y", (3, 11), "int16", scale=1e-3)
    operands = [given, w, bias(net, 11, "int32", scale * 0.01)]
    net.add("FULLY_CONNECTED", operands, [y], {"quantized_bias_type": 2 if wide else 0})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("scales", [1, 11])
def test_int16_weights(kind: str, scales: int, tmp_path: Path, backend: str) -> None:
    """Their sums have 64 bits."""
    net, x, weights = Net(), codes((3, 37), "int16"), codes((11, 37), "int16", 1)
    given = net.tensor("x", x.shape, "int16", scale=1e-4)
    steps = np.linspace(1e-4, 3e-4, scales)
    w = net.tensor("w", data=weights, dtype="int16", scale=steps)
    y = net.tensor("y", (3, 11), "int16", scale=1e-3)
    options = {"quantized_bias_type": {"int32": 2, "int64": 4}[kind]}
    net.add("FULLY_CONNECTED", [given, w, bias(net, 11, kind, 1e-8)], [y], options)
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize("shape", [(2, 2, 0), (3, 7)], ids=str)
def test_rows_that_are_empty_or_do_not_fit(shape: Shape, tmp_path: Path, backend: str) -> None:
    """Without elements all is 0, the bias or not; what is left of the data does not count."""
    net, depth = Net(), shape[-1] + 3 * (shape[-1] > 0)
    given, b = net.tensor("x", shape), net.tensor("b", data=np.ones(2), dtype="float32")
    w = net.tensor("w", (2, depth), data=np.ones((2, depth)), dtype="float32")
    y = net.tensor("y", (1, 2))
    net.add("FULLY_CONNECTED", [given, w, b], [y], {})
    net.inputs, net.outputs = [given], [y]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    check(net, {"x": x}, tmp_path, backend)


def test_int16_convolution_with_a_bias_of_32_bits(tmp_path: Path, backend: str) -> None:
    net, x = Net(), codes((1, 5, 7, 3), "int16")
    given = net.tensor("x", x.shape, "int16", scale=1e-4)
    w = net.tensor("w", data=codes((4, 3, 2, 3), "int8", 1), dtype="int8", scale=0.01)
    y = net.tensor("y", (1, 5, 7, 4), "int16", scale=2e-3)
    operands = [given, w, bias(net, 4, "int32", 1e-6)]
    net.add("CONV_2D", operands, [y], {"stride_h": 1, "stride_w": 1, "quantized_bias_type": 2})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("last", [0.02, 0.05])
def test_hybrid_convolution(group: int, last: float, tmp_path: Path, backend: str) -> None:
    """The steps of the data have zero points where the scales differ, and in groups."""
    net, x = Net(), np.random.default_rng(3).integers(-100, 100, (2, 5, 6, 4)) / np.float32(40)
    given, b = net.tensor("x", x.shape), net.tensor("b", data=np.arange(4), dtype="float32")
    steps = np.array([0.02, 0.02, 0.02, last])
    w = net.tensor("w", data=codes((4, 3, 2, 4 // group), "int8"), dtype="int8", scale=steps)
    y = net.tensor("y", (2, 5, 6, 4))
    net.add("CONV_2D", [given, w, b], [y], {"stride_h": 1, "stride_w": 1})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x.astype(np.float32)}, tmp_path, backend)


@pytest.mark.parametrize("scales", [1, 3])
def test_hybrid_transposed_convolution(scales: int, tmp_path: Path, backend: str) -> None:
    net, x = Net(), np.random.default_rng(3).standard_normal((2, 4, 5, 4)).astype(np.float32)
    given, b = net.tensor("x", x.shape), net.tensor("b", data=np.arange(3), dtype="float32")
    steps = np.linspace(0.01, 0.03, scales)
    w = net.tensor("w", data=codes((3, 3, 2, 4), "int8"), dtype="int8", scale=steps)
    shape = net.tensor("shape", data=np.array([2, 8, 5, 3]), dtype="int32")
    y = net.tensor("y", (2, 8, 5, 3))
    net.add("TRANSPOSE_CONV", [shape, w, given, b], [y], {"stride_h": 2, "stride_w": 1})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize("name", ["CONV_2D", "MAX_POOL_2D"])
def test_windows_that_do_not_fit(name: str, tmp_path: Path, backend: str) -> None:
    """They leave nothing where they reach less than a stride too far."""
    net, options = Net(), {"stride_h": 3, "stride_w": 1, "padding": 1}
    operands = [net.tensor("x", (2, 2, 5, 3))]
    if name == "CONV_2D":
        ones = np.ones((4, 4, 1, 3))
        operands += [net.tensor("w", data=ones, dtype="float32"),
                     net.tensor("b", data=ones[:, 0, 0, 0], dtype="float32")]  # fmt: skip
    else:
        options |= {"filter_height": 4, "filter_width": 1}
    y = net.tensor("y", (2, 0, 5, 4))
    net.add(name, operands, [y], options)
    net.inputs, net.outputs = operands[:1], [y]
    check(net, {"x": np.ones((2, 2, 5, 3), np.float32)}, tmp_path, backend)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_weights_at_run_time(dtype: str, tmp_path: Path, backend: str) -> None:
    net, x, w = Net(), codes((1, 5, 7, 3), dtype), codes((4, 3, 2, 3), dtype, 1)
    zero = 131 if dtype == "uint8" else 0
    given = [net.tensor("x", x.shape, dtype, scale=0.02, zero_point=7),
             net.tensor("w", w.shape, dtype, scale=0.01, zero_point=zero)]  # fmt: skip
    y = net.tensor("y", (1, 5, 7, 4), dtype, scale=0.2, zero_point=3)
    operands = [*given, bias(net, 4, "int32", 2e-4)]
    net.add("CONV_2D", operands, [y], {"stride_h": 1, "stride_w": 1})
    net.inputs, net.outputs = given, [y]
    check(net, {"x": x, "w": w}, tmp_path, backend)


@pytest.mark.parametrize("depth", [9, 16, 37])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_hybrid_weights_of_minus_128(dtype: str, depth: int, tmp_path: Path, backend: str) -> None:
    """The kernels take it for 128 where the data are negative, in whole blocks of 16."""
    weights = codes((5, depth), "int8")
    weights[:, ::3] = -128
    net, x = Net(), np.random.default_rng(1).standard_normal((3, depth)).astype(np.float32)
    x[2] = 0
    given = net.tensor("x", x.shape)
    zero = 128 if dtype == "uint8" else 0
    w = net.tensor("w", data=weights.view(dtype), dtype=dtype, scale=0.01, zero_point=zero)
    b, y = net.tensor("b", data=np.arange(5), dtype="float32"), net.tensor("y", (3, 5))
    net.add("FULLY_CONNECTED", [given, w, b], [y], {})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize(
    "other", [(2, 3, 5, 4), (2, 1, 5, 4), (3, 5, 4), (1, 5, 4), (5, 4)], ids=str
)
def test_hybrid_batches_of_several_axes(other: Shape, tmp_path: Path, backend: str) -> None:
    """The kernels scale the rows of most matrices by the steps of others."""
    _hybrid_batches((2, 3, 3, 5), other, {}, tmp_path, backend)


def test_hybrid_batches_with_zero_points(tmp_path: Path, backend: str) -> None:
    """The kernels take those of others too, and the sums of other weights' rows."""
    options = {"asymmetric_quantize_inputs": True}
    _hybrid_batches((2, 3, 3, 5), (2, 3, 5, 4), options, tmp_path, backend)
    for other in ((2, 1, 5, 4), (3, 5, 4), (1, 5, 4), (5, 4)):
        _hybrid_batches((2, 3, 3, 5), other, options, tmp_path, "numpy")
        turned = options | {"adj_x": True}
        _hybrid_batches((2, 3, 5, 3), other, turned, tmp_path, "numpy")


@pytest.mark.parametrize(
    "options", [{"adj_x": True}, {"asymmetric_quantize_inputs": True}], ids=str
)
def test_hybrid_batches(options: dict[str, Any], tmp_path: Path, backend: str) -> None:
    shape = (2, 5, 3) if "adj_x" in options else (2, 3, 5)
    _hybrid_batches(shape, (2, 5, 4), options, tmp_path, backend)


def _hybrid_batches(
    shape: Shape, other: Shape, options: dict[str, Any], folder: Path, backend: str
) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal(shape).astype(np.float32)
    x *= rng.uniform(0.3, 3, (*shape[:-1], 1)).astype(np.float32)
    net = Net()
    given = net.tensor("x", shape)
    w = net.tensor("w", data=codes(other, "int8"), dtype="int8", scale=0.02)
    left = x.swapaxes(-1, -2) if options.get("adj_x") else x
    y = net.tensor("y", (left @ np.zeros(other)).shape)
    net.add("BATCH_MATMUL", [given, w], [y], options)
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, folder, backend)


def test_embeddings_of_bytes(tmp_path: Path, backend: str) -> None:
    """Tables of uint8 that become real are taken for int8."""
    net, found = Net(), np.array([1, 0, 2, 1], np.int32)
    given = net.tensor("x", found.shape, "int32")
    w = net.tensor("w", data=codes((3, 5), "uint8"), dtype="uint8", scale=0.1)
    y = net.tensor("y", (4, 5))
    net.add("EMBEDDING_LOOKUP", [given, w], [y])
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": found}, tmp_path, backend)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("name", ["CONV_3D", "CONV_3D_TRANSPOSE"])
def test_convolutions_of_volumes(name: str, padding: int, tmp_path: Path, backend: str) -> None:
    rng, net = np.random.default_rng(7), Net()
    x = rng.standard_normal((2, 3, 4, 5, 3)).astype(np.float32)
    kernel = (2, 3, 2, 3, 4) if name == "CONV_3D" else (2, 3, 2, 4, 3)
    given = net.tensor("x", x.shape)
    w = net.tensor("w", data=rng.standard_normal(kernel), dtype="float32")
    operands = [given, w, net.tensor("b", data=np.arange(4), dtype="float32")]
    if name != "CONV_3D":
        sizes = (6, 6, 10) if padding else (6, 4, 9)
        shape = net.tensor("shape", data=np.array([2, *sizes, 4]), dtype="int32")
        operands = [shape, w, given, operands[2]]
    y = net.tensor("y", (1,) * 5)
    steps = {"stride_d": 2, "stride_h": 1, "stride_w": 2, "dilation_h_factor": 1 + (not padding)}
    net.add(name, operands, [y], {**steps, "padding": padding})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)
