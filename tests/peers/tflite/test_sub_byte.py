"""Integers of fewer than 8 bits, against TensorFlow Lite's own kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.peers.tflite.test_operators import check, kernels, one
from tests.tflite_writer import Net, Table

from vknn.errors import InputError, UnsupportedLayerError
from vknn.formats.tflite.loader import load
from vknn.graph import DType, TensorType
from vknn.ops.quantized.blocks import MatMulNBits
from vknn.session import Session

RANGES = {"int4": (-8, 8), "int2": (-2, 2), "uint4": (0, 16)}
Shape = tuple[int, ...]


def numbers(dtype: str, shape: Shape) -> np.ndarray:
    return np.random.default_rng(1).integers(*RANGES[dtype], shape).astype(np.int8)


def real(shape: Shape) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def codes(shape: Shape, dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(3).integers(info.min, info.max + 1, shape).astype(dtype)


def ends(dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The quantization of data and result."""
    if dtype == "float32":
        return {}, {}
    zeros = (0, 0) if dtype == "int16" else (5, 3)
    scales = (1e-4, 1e-3) if dtype == "int16" else (0.05, 0.5)
    first, second = ({"scale": s, "zero_point": z} for s, z in zip(scales, zeros, strict=True))
    return first, second


def bias(dtype: str, count: int) -> tuple[Any, ...]:
    kind = {"float32": "float32", "int16": "int64"}.get(dtype, "int32")
    extra = {} if dtype == "float32" else {"scale": 1e-5 if dtype == "int16" else 0.005}
    return (count,), kind, {"data": np.arange(count) * 3, **extra}


@pytest.mark.parametrize("dtype", ["int4", "int2"])
@pytest.mark.parametrize("data", ["float32", "int8", "int16"])
@pytest.mark.parametrize("scales", [1, 5])
def test_fully_connected(dtype: str, data: str, scales: int, tmp_path: Path, backend: str) -> None:
    given, wanted = ends(data)
    weights = {"data": numbers(dtype, (5, 37)), "scale": np.linspace(0.1, 0.3, scales)}
    net = one(
        "FULLY_CONNECTED",
        [((3, 37), data, given), ((5, 37), dtype, weights), bias(data, 5)],
        [((3, 5), data, wanted)],
        {"asymmetric_quantize_inputs": scales == 5},
    )
    x = real((3, 37)) if data == "float32" else codes((3, 37), data)
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("dtype", ["int4", "int2"])
@pytest.mark.parametrize("data", ["float32", "int8", "int16"])
def test_rows_that_begin_within_bytes(dtype: str, data: str, tmp_path: Path, backend: str) -> None:
    """An odd count of weights, the lowest of all among them, and a row of zeros of the scale 0."""
    given, wanted = ends(data)
    w = numbers(dtype, (5, 7))
    w[1], w[3] = RANGES[dtype][0], 0
    weights = {"data": w, "scale": np.array([0.1, 0.02, 0.3, 0.0, 0.05])}
    net = one(
        "FULLY_CONNECTED",
        [((3, 7), data, given), ((5, 7), dtype, weights), bias(data, 5)],
        [((3, 5), data, wanted)],
        {"fused_activation_function": 1},
    )
    x = real((3, 7)) if data == "float32" else codes((3, 7), data)
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("scales", [1, 257])
def test_dequantized_weights(dtype: str, scales: int, tmp_path: Path, backend: str) -> None:
    """Weights that an operator makes floats of; large ones stay packed. Data are not rounded."""
    net, shape = Net(), (257, 259)
    given = {"scale": np.linspace(0.1, 0.3, scales), "zero_point": 1}
    w = net.tensor("w", data=numbers(dtype, shape), dtype=dtype, **given)
    x, floats, y = net.tensor("x", (3, 259)), net.tensor("f", shape), net.tensor("y", (3, 257))
    net.inputs, net.outputs = [x], [y]
    net.add("DEQUANTIZE", [w], [floats], {})
    net.add("FULLY_CONNECTED", [x, floats], [y], {})
    check(net, {"x": real((3, 259))}, tmp_path, backend)
    (tmp_path / "net.tflite").write_bytes(net.file())
    graph = load(tmp_path / "net.tflite").build({"x": TensorType((3, 259), DType.FLOAT32)})
    assert any(isinstance(node.op, MatMulNBits) for node in graph.nodes)


def ours(net: Net, feeds: dict[str, np.ndarray], folder: Path, backend: str) -> np.ndarray:
    """The output y of vknn."""
    path = folder / "net.tflite"
    path.write_bytes(net.file())
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device) as session:
        return session.run(feeds)["y"]


def blockwise(dtype: str, size: int, zeros: bool = False) -> tuple[Net, np.ndarray]:
    """x [3, 64] by weights [5, 64] with scales of blocks; and what the weights stand for."""
    w, steps = numbers(dtype, (5, 64)), np.linspace(0.1, 0.6, 5 * 64 // size).reshape(5, -1)
    steps = steps.astype(np.float16)
    points = np.arange(steps.size).reshape(steps.shape) % 3 - 1 if zeros else np.zeros(steps.shape)
    net = Net()
    given = net.tensor("x", (3, 64))
    scales = net.tensor("scales", data=steps, dtype="float16")
    place = net.tensor("zeros", data=points, dtype="int8") if zeros else -1
    details = {"scales": scales, "zero_points": place, "block_size": size}
    blocks = {"details": Table("BlockwiseQuantization", details)}
    quantization = Table("QuantizationParameters", blocks)
    weights = net.tensor("w", data=w, dtype=dtype, quantization=quantization)
    shift = net.tensor("b", data=np.arange(5), dtype="float32")
    net.inputs, net.outputs = [given], [net.tensor("y", (3, 5))]
    net.add("FULLY_CONNECTED", [given, weights, shift], net.outputs, {})
    blocks_of = w.reshape(*steps.shape, size) - points[..., None]
    return net, (blocks_of * steps[..., None].astype(np.float32)).reshape(w.shape)


@pytest.mark.parametrize("dtype", ["int4", "int2"])
@pytest.mark.parametrize("size", [64, 16, 4, 1])
def test_blocks(dtype: str, size: int, tmp_path: Path, backend: str) -> None:
    """Blocks of whole words are multiplied as they are, others as floats."""
    for zeros in (False, True):
        net, weights = blockwise(dtype, size, zeros)
        x = real((3, 64))
        found = ours(net, {"x": x}, tmp_path, backend)
        expected = x @ weights.T + np.arange(5, dtype=np.float32)
        most = float(np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * most)


def test_blocks_as_in_tensorflow_lite(tmp_path: Path, backend: str) -> None:
    """Its kernel rounds data to 8 bits."""
    net, _ = blockwise("int4", 32)
    x = real((3, 64))
    found = ours(net, {"x": x}, tmp_path, backend)
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    runner = litert.Interpreter(model_content=net.file())
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], x)
    runner.invoke()
    expected = runner.get_tensor(runner.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-2 * np.abs(expected).max())


@pytest.mark.parametrize("data", ["float32", "int8", "uint8", "int16"])
@pytest.mark.parametrize("steps", [0.0, 0.1])
def test_convolution(data: str, steps: float, tmp_path: Path, backend: str) -> None:
    """Of floats: data are rounded to other steps where all channels have one scale."""
    given, wanted = ends(data)
    scale = np.array([0.1]) if data == "uint8" else 0.1 + steps * np.arange(4)
    weights = {"data": numbers("int4", (4, 3, 2, 3)), "scale": scale}
    net = one(
        "CONV_2D",
        [((2, 5, 6, 3), data, given), ((4, 3, 2, 3), "int4", weights), bias(data, 4)],
        [((2, 5, 6, 4), data, wanted)],
        {"stride_h": 1, "stride_w": 1},
    )
    x = real((2, 5, 6, 3)) if data == "float32" else codes((2, 5, 6, 3), data)
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("data", ["float32", "int8", "int16"])
@pytest.mark.parametrize("scales", [1, 9])
@pytest.mark.parametrize("valid", [0, 1])
def test_windows_of_convolutions(
    data: str, scales: int, valid: int, tmp_path: Path, backend: str
) -> None:
    """Strides, dilations and groups; an odd count of weights, the last row zeros."""
    given, wanted = ends(data)
    w = numbers("int4", (9, 3, 1, 5))
    w[-1] = 0
    weights = {"data": w, "scale": np.linspace(0.1, 0.5, scales)}
    for groups, stride, dilation in ((1, 2, 1), (1, 1, 2), (3, 1, 1))[: 3 if scales > 1 else 2]:
        shape, size = (1, 7, 7, 5 * groups), np.array([7, 7]) - valid * np.array([2 * dilation, 0])
        image = (1, *(int(n) for n in -(-size // stride)), 9)
        strides = dict.fromkeys(("stride_h", "stride_w"), stride)
        dilations = dict.fromkeys(("dilation_h_factor", "dilation_w_factor"), dilation)
        net = one(
            "CONV_2D",
            [(shape, data, given), (w.shape, "int4", weights), bias(data, 9)],
            [(image, data, wanted)],
            {**strides, **dilations, "padding": valid},
        )
        x = real(shape) if data == "float32" else codes(shape, data)
        check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("scales", [1, 15])
def test_depthwise_convolution(
    multiplier: int, dilation: int, scales: int, tmp_path: Path, backend: str
) -> None:
    """Of int8, the only data that TensorFlow Lite has a kernel for."""
    given, wanted = ends("int8")
    channels, stride = 5 * multiplier, 3 - dilation
    scale = np.linspace(0.1, 0.3, min(channels, scales))
    weights = {"data": numbers("int4", (1, 3, 3, channels)), "scale": scale, "axis": 3}
    inputs = [((2, 6, 6, 5), "int8", given), ((1, 3, 3, channels), "int4", weights)]
    strides = dict.fromkeys(("stride_h", "stride_w"), stride)
    dilations = dict.fromkeys(("dilation_h_factor", "dilation_w_factor"), dilation)
    net = one(
        "DEPTHWISE_CONV_2D",
        [*inputs, bias("int8", channels)],
        [((2, 6 // stride, 6 // stride, channels), "int8", wanted)],
        {**strides, **dilations, "depth_multiplier": multiplier},
    )
    check(net, {"x0": codes((2, 6, 6, 5), "int8")}, tmp_path, backend)


@pytest.mark.parametrize(
    ("dtype", "data", "multiplier", "scales"),
    [
        (dtype, data, multiplier, scales)
        for dtype, kinds in (("int2", ("float32", "int8", "int16")), ("int4", ("float32", "int16")))
        for data in kinds
        for multiplier in (0, 1, 3)[dtype == "int4" :]
        for scales in (1, 15)
        if scales > 1 or not multiplier or data != "float32"  # which want a scale a channel
    ],
)
def test_convolutions_without_a_kernel(
    dtype: str, data: str, multiplier: int, scales: int, tmp_path: Path, backend: str
) -> None:
    """Weights that TensorFlow Lite refuses, or takes for bytes: as its kernels for the same codes
    in bytes. ``multiplier`` 0: not depthwise."""
    given, wanted = ends(data)
    channels = 5 * multiplier or 7
    shape = (1, 3, 3, channels) if multiplier else (channels, 3, 3, 5)
    scale = np.linspace(0.1, 0.3, min(channels, scales))
    weights = {"data": numbers(dtype, shape), "scale": scale, "axis": 3 if multiplier else 0}
    options = dict.fromkeys(("stride_h", "stride_w"), 1)
    options |= dict.fromkeys(("dilation_h_factor", "dilation_w_factor"), 1)

    def net(kind: str) -> Net:
        return one(
            "DEPTHWISE_CONV_2D" if multiplier else "CONV_2D",
            [
                ((2, 6, 6, 5), data, given),
                (shape, kind, weights),
                bias(data, channels),
            ],
            [((2, 6, 6, channels), data, wanted)],
            {**options, "padding": 0, **({"depth_multiplier": multiplier} if multiplier else {})},
        )

    x = real((2, 6, 6, 5)) if data == "float32" else codes((2, 6, 6, 5), data)
    expected = kernels(net("int8").file(), {"x0": x})["y0"]
    path = tmp_path / "net.tflite"
    path.write_bytes(net(dtype).file())
    with Session(path, device="numpy" if backend == "numpy" else "auto") as session:
        found = session.run({"x0": x})["y0"]
    assert found.dtype == expected.dtype
    most = 1e-5 * float(np.abs(expected).max()) if data == "float32" else 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=most)


@pytest.mark.parametrize("dtype", RANGES)
def test_real_numbers(dtype: str, tmp_path: Path, backend: str) -> None:
    w, x = numbers(dtype, (3, 5)), np.linspace(-20, 20, 15, dtype=np.float32).reshape(3, 5)
    shape, wide = (3, 5), [((3, 5), "float32", {})]
    for scale in (0.3, np.array([0.3, 0.1, 0.2])):
        table = {"data": w, "scale": scale, "zero_point": 1}
        check(one("DEQUANTIZE", [(shape, dtype, table)], wide), {}, tmp_path, backend)
    check(one("CAST", [(shape, dtype, {"data": w})], wide, {}), {}, tmp_path, backend)
    check(one("CAST", wide, [(shape, dtype, {})], {}), {"x0": x}, tmp_path, backend)
    if dtype != "int2":
        steps = {"scale": 0.7, "zero_point": 1}
        check(one("QUANTIZE", wide, [(shape, dtype, steps)]), {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("width", [8, 7, 2, 1])
@pytest.mark.parametrize("dtype", ["int4", "int2"])
def test_embeddings(dtype: str, width: int, tmp_path: Path, backend: str) -> None:
    """Rows that do not fill whole bytes are read from the byte in which they start."""
    found = np.array([0, 1, 5, 3, 2, 4, 5], np.int32)
    for scale, wanted in ((0.2, "float32"), (np.linspace(0.1, 0.6, 6), "float16")):
        table = {"data": numbers(dtype, (6, width)), "scale": scale}
        inputs = [((7,), "int32", {}), ((6, width), dtype, table)]
        net = one("EMBEDDING_LOOKUP", inputs, [((7, width), wanted, {})])
        check(net, {"x0": found}, tmp_path, backend)


@pytest.mark.parametrize("dtype", ["int4", "int2"])
@pytest.mark.parametrize("wanted", ["float32", "float16"])
def test_embeddings_by_blocks(dtype: str, wanted: str, tmp_path: Path, backend: str) -> None:
    net, found = Net(), np.array([1, 0, 2, 1], np.int32)
    steps = np.linspace(0.1, 0.6, 6).reshape(3, 2)
    scales = net.tensor("scales", data=steps, dtype="float16")
    details = Table("BlockwiseQuantization", {"scales": scales, "zero_points": -1, "block_size": 4})
    blocks = Table("QuantizationParameters", {"details": details})
    given = net.tensor("x", found.shape, "int32")
    w = net.tensor("w", data=numbers(dtype, (3, 8)), dtype=dtype, quantization=blocks)
    y = net.tensor("y", (4, 8), wanted)
    net.add("EMBEDDING_LOOKUP", [given, w], [y])
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": found}, tmp_path, backend)


def test_movement(tmp_path: Path, backend: str) -> None:
    x = numbers("int4", (3, 6))
    end = ((3, 6), "int4", {})
    places = ((2,), "int32", {"data": np.array([2, 0])})
    begin = ((2,), "int32", {"data": np.array([1, 1])})
    net = one("GATHER", [end, places], [((2, 6), "int4", {})], {"axis": 0})
    check(net, {"x0": x}, tmp_path, backend)
    sizes = ((2,), "int32", {"data": np.array([2, 3])})
    net = one("SLICE", [end, begin, sizes], [((2, 3), "int4", {})], {})
    check(net, {"x0": x}, tmp_path, backend)
    net = one("CONCATENATION", [end, end], [((3, 12), "int4", {})], {"axis": 1})
    check(net, {"x0": x, "x1": x[::-1]}, tmp_path, backend)


def test_what_is_refused(tmp_path: Path) -> None:
    path, end = tmp_path / "net.tflite", ((3, 6), "int4", {})
    path.write_bytes(one("ABS", [end], [end], {}).file())
    with pytest.raises(UnsupportedLayerError, match=r"ABS.*int4"), Session(path) as session:
        session.run({"x0": np.zeros((3, 6), np.int8)})
    path.write_bytes(one("CAST", [end], [((3, 6), "float32", {})], {}).file())
    with pytest.raises(InputError, match="from -8 to 7"), Session(path) as session:
        session.run({"x0": np.full((3, 6), 8, np.int8)})
