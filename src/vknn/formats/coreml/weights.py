"""Weight arrays in their four encodings, decoded to float32 when a graph is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.formats.layer_errors import Malformed

_VALUES = ("floatValue", "float16Value", "rawValue", "int8RawValue")


def has_values(message: Any) -> bool:
    """Whether a WeightParams holds any values."""
    return any(len(getattr(message, name)) for name in _VALUES)


def decode(
    message: Any,
    shape: Sequence[int],
    what: str,
    channel_axis: int = 0,
    groups: int = 1,
) -> np.ndarray:
    """A WeightParams as a float32 array of ``shape``.

    ``channel_axis``: the axis along which scales and biases of linear quantization may differ, in
    ``groups`` groups of the first axis where the weights of a deconvolution are grouped. Raises
    Malformed, naming ``what``, where the values are none, too few, too many or ambiguous.
    """
    shape = tuple(shape)
    kind = _encoding(message, what)
    if kind == "floatValue":
        array = float_array(message)
        _check_count(array.size, shape, what)
    elif kind == "float16Value":
        if len(message.float16Value) % 2:
            raise Malformed(f"{what} of {len(message.float16Value)} bytes are not 16-bit numbers")
        array = np.frombuffer(message.float16Value, "<f2")
        _check_count(array.size, shape, what)
        array = array.astype(np.float32)
    elif kind == "rawValue":
        codes = unpack(message, math.prod(shape), what)
        return _dequantized(message.quantization, codes.reshape(shape), what, channel_axis, groups)
    else:
        raise Malformed(f"{what} are 8-bit integers, which only int8DynamicQuantize takes")
    return array.reshape(shape)


def flat(message: Any, what: str) -> np.ndarray:
    """A WeightParams of unknown shape, as a vector of all the values that it holds."""
    count = len(message.floatValue) or len(message.float16Value) // 2
    if not count and message.rawValue:
        count = len(message.rawValue) * 8 // max(1, message.quantization.numberOfBits)
    return decode(message, (count,), what)


def decode_int8(message: Any, shape: Sequence[int], what: str) -> tuple[np.ndarray, np.ndarray]:
    """(codes int8 of ``shape``, scales float32 (1,) or (channels,)) for int8DynamicQuantize."""
    shape = tuple(shape)
    if _encoding(message, what) != "int8RawValue":
        raise Malformed(f"{what} of a layer with int8DynamicQuantize must be int8RawValue")
    codes = np.frombuffer(message.int8RawValue, np.int8)
    _check_count(codes.size, shape, what)
    linear = message.quantization.linearQuantization
    scale = np.asarray(linear.scale, np.float32)
    if not scale.size:
        raise Malformed(f"{what} have no scale")
    return codes.reshape(shape), scale


def float_array(message: Any, field: str = "floatValue") -> np.ndarray:
    """A field of many floats as an array, without a Python object for each of them.

    The serialized form of a message with that field alone ends with the raw floats.
    """
    count = len(getattr(message, field))
    if not count:
        return np.zeros(0, np.float32)
    bare = type(message)()
    getattr(bare, field).MergeFrom(getattr(message, field))
    data = bare.SerializeToString()
    return np.frombuffer(data, "<f4", offset=len(data) - 4 * count)


def unpack(message: Any, count: int, what: str) -> np.ndarray:
    """``count`` unsigned codes of numberOfBits bits each, the first in the highest bits."""
    bits = message.quantization.numberOfBits
    if not 1 <= bits <= 8:
        raise Malformed(f"{what} are quantized to {bits} bits; 1 to 8 are possible")
    data = message.rawValue
    wanted = (count * bits + 7) // 8
    if len(data) != wanted:
        raise Malformed(f"{what} have {len(data)} bytes; {count} codes of {bits} bits are {wanted}")
    raw = np.frombuffer(data, np.uint8)
    if bits == 8:
        return raw
    if 8 % bits == 0:
        shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
        return ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    places = (1 << np.arange(bits - 1, -1, -1)).astype(np.uint8)
    single = np.unpackbits(raw)[: count * bits].reshape(count, bits)
    return (single * places).sum(axis=1, dtype=np.uint8)


def _encoding(message: Any, what: str) -> str:
    found = [name for name in _VALUES if len(getattr(message, name))]
    if not found:
        raise Malformed(f"{what} are missing")
    if len(found) > 1:
        raise Malformed(f"{what} are given twice, as {' and '.join(found)}")
    return found[0]


def _check_count(given: int, shape: tuple[int, ...], what: str) -> None:
    count = math.prod(shape)
    if given != count:
        dims = " x ".join(map(str, shape)) or "1"
        raise Malformed(f"{what} have {given} values, not {count} ({dims})")


def _dequantized(
    quantization: Any, codes: np.ndarray, what: str, axis: int, groups: int
) -> np.ndarray:
    kind = quantization.WhichOneof("QuantizationType")
    if kind is None:
        raise Malformed(f"{what} are quantized, but nothing says how")
    if kind == "lookupTableQuantization":
        table = float_array(quantization.lookupTableQuantization)
        if table.size != 1 << quantization.numberOfBits:
            raise Malformed(
                f"the look-up table of {what} has {table.size} entries, not "
                f"{1 << quantization.numberOfBits}"
            )
        return table[codes]
    linear = quantization.linearQuantization
    if not len(linear.scale):
        raise Malformed(f"{what} have no scale")
    # scale and bias are float32; code * scale + bias is rounded to float32 once, as by a fused
    # multiply-add.
    scale = _spread(linear.scale, codes.shape, what, axis, groups)
    result = codes * scale
    if len(linear.bias):
        result = result + _spread(linear.bias, codes.shape, what, axis, groups)
    return result.astype(np.float32)


def _spread(
    values: Sequence[float], shape: tuple[int, ...], what: str, axis: int, groups: int
) -> np.ndarray:
    """Numbers, one or one a channel, in a shape that broadcasts to the codes."""
    array = np.asarray(values, np.float64)
    if array.size == 1:
        return array.reshape((1,) * len(shape))
    channels = shape[axis] if shape else 1
    sizes = [1] * len(shape)
    if array.size == channels:
        sizes[axis] = channels
        return array.reshape(sizes)
    if groups > 1 and axis == 1 and array.size == groups * channels and shape[0] % groups == 0:
        sizes[axis] = channels
        spread = np.repeat(array.reshape(groups, channels), shape[0] // groups, axis=0)
        return spread.reshape(shape[0], *sizes[1:])
    raise Malformed(f"{what} have {array.size} scales or biases; 1 or {channels * groups} fit")
