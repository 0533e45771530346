"""Weights in all their encodings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import half_weights, linear_weights, packed, table_weights, weights

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.weights import decode, decode_int8, flat, has_values, unpack
from vknn.formats.layer_errors import Malformed

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 4), (3, 1, 1, 5)])
def test_floats(shape: tuple[int, ...]) -> None:
    array = RNG.standard_normal(shape).astype(np.float32)
    assert np.array_equal(decode(weights(array), shape, "w"), array)
    halves = array.astype(np.float16)
    found = decode(half_weights(halves), shape, "w")
    assert found.dtype == np.float32
    assert np.array_equal(found, halves.astype(np.float32))


def test_many_floats_and_odd_ones() -> None:
    array = RNG.standard_normal(100_003).astype(np.float32)
    array[:4] = [np.inf, -np.inf, np.nan, -0.0]
    assert np.array_equal(decode(weights(array), array.shape, "w"), array, equal_nan=True)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 17, 64])
def test_codes(bits: int, count: int) -> None:
    codes = RNG.integers(0, 1 << bits, count)
    message = linear_weights(codes, bits, 1.0)
    assert unpack(message, count, "w").tolist() == codes.tolist()
    assert decode(message, (count,), "w").tolist() == codes.tolist()
    table = RNG.standard_normal(1 << bits).astype(np.float32)
    assert np.array_equal(decode(table_weights(codes, bits, table), (count,), "w"), table[codes])


def test_the_most_significant_bit_comes_first() -> None:
    assert packed([1, 2, 3], 3) == bytes([0b00101001, 0b10000000])
    assert unpack(linear_weights([0] * 3, 3, 1.0), 3, "w").tolist() == [0, 0, 0]


@pytest.mark.parametrize("bits", [1, 3, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("spread", [(True, True), (True, False), (False, True), (True, None)])
def test_scales_and_biases_by_channel(bits: int, axis: int, spread: Any) -> None:
    shape = (4, 3, 2, 2)
    codes = RNG.integers(0, 1 << bits, shape)
    sizes = [1, 1, 1, 1]
    sizes[axis] = shape[axis]
    many = RNG.uniform(0.1, 1, (2, shape[axis])).astype(np.float32)
    scale = many[0] if spread[0] else many[0, :1]
    bias = [] if spread[1] is None else many[1] if spread[1] else many[1, :1]
    found = decode(linear_weights(codes, bits, scale, bias), shape, "w", axis)
    wanted = codes * scale.astype(np.float64).reshape(sizes if spread[0] else -1)
    if len(bias):
        wanted = wanted + np.float64(bias).reshape(sizes if spread[1] else -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_scales_of_a_grouped_deconvolution() -> None:
    """Stored [C_in, C_out / groups, ...], a scale for each of C_out."""
    groups, shape = 2, (4, 3, 2, 2)
    codes = RNG.integers(0, 16, shape)
    scale = RNG.uniform(0.1, 1, 6).astype(np.float32)
    found = decode(linear_weights(codes, 4, scale), shape, "w", 1, groups)
    for i in range(4):
        for o in range(3):
            factor = scale[(i // 2) * 3 + o]
            np.testing.assert_allclose(found[i, o], codes[i, o] * factor, rtol=1e-6)


def test_int8() -> None:
    codes = RNG.integers(-128, 128, (3, 4)).astype(np.int8)
    message = pb.WeightParams(int8RawValue=codes.tobytes())
    message.quantization.linearQuantization.scale.append(0.25)
    found, scale = decode_int8(message, (3, 4), "w")
    assert np.array_equal(found, codes)
    assert scale.tolist() == [0.25]
    with pytest.raises(Malformed, match="8-bit integers"):
        decode(message, (3, 4), "w")
    with pytest.raises(Malformed, match="12 values, not 8"):
        decode_int8(message, (2, 4), "w")
    message.quantization.ClearField("linearQuantization")
    with pytest.raises(Malformed, match="no scale"):
        decode_int8(message, (3, 4), "w")
    with pytest.raises(Malformed, match="int8RawValue"):
        decode_int8(weights(codes), (3, 4), "w")


def test_what_is_there() -> None:
    assert not has_values(pb.WeightParams())
    assert has_values(weights([1]))
    assert has_values(half_weights([1]))
    assert flat(half_weights([1, 2]), "w").tolist() == [1, 2]
    assert flat(linear_weights([1, 2], 8, 1.0), "w").tolist() == [1, 2]


def broken(**fields: Any) -> Any:
    message = linear_weights([1, 2, 3], 4, 1.0)
    for name, value in fields.items():
        if name == "bits":
            message.quantization.numberOfBits = value
        elif name == "scale":
            message.quantization.linearQuantization.scale[:] = value
        else:
            setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    "message, words",
    [
        (pb.WeightParams(), "missing"),
        (weights([1, 2]), "2 values, not 3"),
        (weights([1, 2, 3, 4]), "4 values, not 3"),
        (pb.WeightParams(float16Value=b"\0" * 5), "5 bytes are not"),
        (half_weights([1, 2]), "2 values, not 3"),
        (broken(rawValue=b"\0"), "1 bytes; 3 codes of 4 bits are 2"),
        (broken(rawValue=b"\0\0\0"), "3 bytes"),
        (broken(bits=0), "0 bits"),
        (broken(bits=9), "9 bits"),
        (broken(bits=1 << 63), "bits"),
        (broken(scale=[]), "no scale"),
        (broken(scale=[1.0, 2.0]), "2 scales or biases; 1 or 3"),
        (broken(float16Value=b"\0" * 6), "given twice"),
        (pb.WeightParams(rawValue=b"\0\0", quantization={"numberOfBits": 4}), "nothing says how"),
        (table_weights([1, 2, 3], 4, [0.0] * 15), "15 entries, not 16"),
        (table_weights([1, 2, 3], 4, [0.0] * 17), "17 entries, not 16"),
    ],
)
def test_what_does_not_fit(message: Any, words: str) -> None:
    with pytest.raises(Malformed, match=f"the kernel.*{words}"):
        decode(message, (3,), "the kernel")
