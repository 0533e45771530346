"""Integers of 4 and 2 bits: constants as files pack them, scales of blocks, buffers of devices."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.nets import run
from tests.helpers import shared_device, single_op_graph
from tests.tflite_writer import Net, Table, packed

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.tflite.loader import load
from vknn.formats.tflite.sub_byte import PackedIntegers
from vknn.formats.tflite.tensors import SUB_BYTE_TYPES
from vknn.graph import DType, TensorType
from vknn.lowering import lower
from vknn.ops.quantized.blocks import unpacked_bits
from vknn.ops.quantized.codes import GatherCodes
from vknn.plan import Role

TYPES = list(SUB_BYTE_TYPES.values())
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)


@pytest.mark.parametrize("type_", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (3, 8), (2, 3, 7), (0, 5), (3, 0)])
def test_constants(type_: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    numbers = rng.integers(type_.low, type_.high + 1, shape).astype(type_.dtype.numpy)
    constant = PackedIntegers(packed(numbers, type_.bits), shape, type_)
    np.testing.assert_array_equal(constant.numbers(), numbers)
    assert constant.numbers().dtype == type_.dtype.numpy
    block, depth = 16, shape[-1]
    codes = constant.codes(block)
    rows = numbers.size // depth if depth else int(np.prod(shape[:-1]))
    assert codes.shape == (rows, -(-depth // block), block * type_.bits // 8)
    if numbers.size:
        flat = unpacked_bits(codes.reshape(rows, -1), type_.bits, codes.shape[1] * block)
        moved = flat.astype(np.int16) + type_.low
        np.testing.assert_array_equal(moved[:, :depth].reshape(shape), numbers)
        assert not moved[:, depth:].any()
    entries = unpacked_bits(constant.entries(), type_.bits, int(np.prod(shape[1:])))
    found = entries.astype(np.int16) + type_.low
    np.testing.assert_array_equal(found, numbers.reshape(entries.shape))


def test_arrays_are_made_once_and_not_kept() -> None:
    constant = PackedIntegers(np.zeros(4, np.uint8), (2, 4), TYPES[0])
    held = constant.numbers(), constant.codes(8), constant.entries()
    assert all(a is b for a, b in zip(held, (constant.numbers(), constant.codes(8)), strict=False))
    assert constant.entries() is held[2]
    del held
    gc.collect()
    assert not constant._made


def blocks(given: dict[str, Any], scales: Any = None, dtype: str = "float16") -> Net:
    """x [2, 6] by weights [3, 6] of int4 in blocks of 2; ``given``: other details of the blocks."""
    net = Net()
    x, y = net.tensor("x", (2, 6)), net.tensor("y", (2, 3))
    steps = net.tensor("s", data=np.full((3, 3), 0.5) if scales is None else scales, dtype=dtype)
    net.tensor("zeros", data=np.ones((3, 3)), dtype="int8")
    details = {"scales": steps, "zero_points": -1, "block_size": 2, **given}
    held = {"details": Table("BlockwiseQuantization", details)}
    quantization = Table("QuantizationParameters", held)
    w = net.tensor("w", data=np.ones((3, 6)), dtype="int4", quantization=quantization)
    net.inputs, net.outputs = [x], [y]
    net.add("FULLY_CONNECTED", [x, w], [y], {})
    return net


@pytest.mark.parametrize("zeros", [-1, 0])
def test_blocks(zeros: int, save: Any) -> None:
    """0, the schema's default, names no zero points unless tensor 0 has them."""
    expected = np.repeat(0.5 * X.sum(axis=1, keepdims=True), 3, axis=1)
    found = run(save(blocks({"zero_points": zeros}).file()), x=X)["y"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    shaped = run(save(blocks({"block_shape": [1, 2], "block_size": 0}).file()), x=X)["y"]
    np.testing.assert_allclose(shaped, expected, atol=1e-6)
    moved = run(save(blocks({"zero_points": 3}).file()), x=X)["y"]
    np.testing.assert_allclose(moved, 0 * expected, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "scales", "dtype", "message"),
    [
        ({"block_size": 0}, None, "float16", "blocks of 0"),
        ({"block_size": -2}, None, "float16", "blocks of -2"),
        ({"block_size": 4}, None, "float16", "blocks of 4, which do not divide"),
        ({"block_size": 1 << 30}, None, "float16", "do not divide its rows"),
        ({"scales": -1}, None, "float16", "scales are tensor -1 of 5"),
        ({"scales": 5}, None, "float16", "scales are tensor 5 of 5"),
        ({"scales": 0}, None, "float16", r"float32 \[2, 6\] without data, not constant float16"),
        ({"scales": 4}, None, "float16", r"int4 \[3, 6\], not constant float16 \[3, 3\]"),
        ({}, np.ones((3, 3)), "float32", r"float32 \[3, 3\], not constant float16"),
        ({}, np.ones((3, 2)), "float16", r"float16 \[3, 2\], not constant float16 \[3, 3\]"),
        ({}, np.ones(9), "float16", r"float16 \[9\], not constant float16 \[3, 3\]"),
        ({}, np.full((3, 3), -1), "float16", "negative or not finite"),
        ({}, np.full((3, 3), np.nan), "float16", "negative or not finite"),
        ({"zero_points": 5}, None, "float16", "zero points are tensor 5 of 5"),
        ({"zero_points": -2}, None, "float16", "zero points are tensor -2 of 5"),
        ({"zero_points": 1}, None, "float16", r"zero points are float32 \[2, 3\], not constant"),
    ],
)
def test_what_is_wrong_with_blocks(
    given: dict[str, Any], scales: Any, dtype: str, message: str, save: Any
) -> None:
    path = save(blocks(given, scales, dtype).file())
    with pytest.raises(ModelFormatError, match=f"tensor 4.*{message}"):
        run(path, x=X)


def test_blocks_that_are_refused(save: Any) -> None:
    with pytest.raises(UnsupportedLayerError, match=r"blocks of the shape \[2, 2\]"):
        load(save(blocks({"block_shape": [2, 2]}).file()))
    net = blocks({})
    quantization = Table("QuantizationParameters", {"scale": np.float32([0.1]), "zero_point": [0]})
    for tensor in net.tensors[:2]:
        tensor.fields |= {"type": 9, "quantization": quantization}
    with pytest.raises(UnsupportedLayerError, match="weights with scales of blocks"):
        run(save(net.file()), x=np.zeros((2, 6), np.int8))


@pytest.mark.parametrize("missing", [1, 10])
def test_buffers_that_are_too_short(missing: int, save: Any) -> None:
    net = blocks({})
    net.buffers[-1].fields["data"] = net.buffers[-1].fields["data"][: 9 - missing]
    with pytest.raises(ModelFormatError, match="tensor 4 .*(needs 9 bytes|no value)"):
        run(save(net.file()), x=X)


@pytest.mark.device
@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("data", ["float32", "int8", "int16"])
def test_weights_of_devices(bits: int, data: str, save: Any) -> None:
    """They take so many bits each there."""
    net, quantized = Net(), data != "float32"
    steps = {"scale": 0.1} if quantized else {}
    x, y = net.tensor("x", (1, 512), data, **steps), net.tensor("y", (1, 64), data, **steps)
    numbers = np.random.default_rng(1).integers(-(1 << (bits - 1)), 1 << (bits - 1), (64, 512))
    w = net.tensor("w", data=numbers, dtype=f"int{bits}", scale=np.linspace(0.1, 1, 64))
    net.inputs, net.outputs = [x], [y]
    net.add("FULLY_CONNECTED", [x, w], [y], {})
    graph = load(save(net.file())).build({"x": TensorType((1, 512), DType(data))})
    plan = lower(graph, shared_device().limits)
    assert _weight_bytes(plan) < 64 * 512 * bits // 8 + 3000


@pytest.mark.device
@pytest.mark.parametrize(
    ("data", "w_shape", "kept", "multiplier"),
    [
        ("int8", (64, 3, 3, 32), 64, 0),
        ("float32", (64, 3, 3, 32), 0, 0),
        ("int16", (64, 1, 1, 128), 64, 0),
        ("int8", (1, 7, 7, 96), 96, 1),
        ("int8", (1, 7, 7, 96), 96, 3),
    ],
)
def test_convolutions_of_devices(
    data: str, w_shape: tuple[int, ...], kept: int, multiplier: int, save: Any
) -> None:
    """Half a byte a weight. ``kept``: output channels with multipliers and shifts; ``multiplier``:
    of a depthwise one, else 0."""
    axis, size = 3 if multiplier else 0, 8
    channels, maps = w_shape[3] // max(1, multiplier), w_shape[axis]
    net, steps = Net(), {} if data == "float32" else {"scale": 0.1}
    x = net.tensor("x", (1, size, size, channels), data, **steps)
    y = net.tensor("y", (1, size, size, maps), data, **steps)
    numbers = np.random.default_rng(1).integers(-8, 8, w_shape)
    w = net.tensor("w", data=numbers, dtype="int4", scale=np.linspace(0.1, 1, maps), axis=axis)
    net.inputs, net.outputs = [x], [y]
    given = {"stride_h": 1, "stride_w": 1, "depth_multiplier": multiplier}
    if not multiplier:
        del given["depth_multiplier"]
    net.add("DEPTHWISE_CONV_2D" if multiplier else "CONV_2D", [x, w], [y], given)
    image = TensorType((1, size, size, channels), DType(data))
    plan = lower(load(save(net.file())).build({"x": image}), shared_device().limits)
    assert _weight_bytes(plan) <= numbers.size // 2 + 16 * kept + 1200


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "bits"), [("EMBEDDING_LOOKUP", 4), ("EMBEDDING_LOOKUP", 2), ("GATHER", 4)]
)
def test_tables_of_devices(name: str, bits: int, save: Any) -> None:
    net, lookup = Net(), name == "EMBEDDING_LOOKUP"
    numbers = np.random.default_rng(1).integers(-(1 << (bits - 1)), 1 << (bits - 1), (64, 512))
    places = net.tensor("x", (3,), "int32")
    table = net.tensor("w", data=numbers, dtype=f"int{bits}", scale=0.1)
    y = net.tensor("y", (3, 512), "float32") if lookup else net.tensor("y", (3, 512), "int4")
    net.inputs, net.outputs = [places], [y]
    net.add(name, [places, table] if lookup else [table, places], [y], None if lookup else {})
    graph = load(save(net.file())).build({"x": TensorType((3,), DType.INT32)})
    (node,) = [n for n in graph.nodes if isinstance(n.op, GatherCodes)]
    alone = single_op_graph(node.op, (node.inputs[0].constant, np.zeros(3, np.int32)), (0,))
    plan = lower(alone, shared_device().limits)
    assert _weight_bytes(plan) == 64 * 512 * bits // 8


def _weight_bytes(plan: Any) -> int:
    return sum(b.nbytes for b in plan.buffers if b.role is Role.WEIGHT)
