"""Operators with later codes that cannot be run: one clear error each, at once."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tflite_writer import Net

from vknn.errors import VknnError
from vknn.session import Session

Save = Callable[[bytes], Path]
MUCH = 1 << 26
SECONDS = 5.0


def fed(shape: tuple[int, ...], dtype: str = "float32") -> tuple[tuple[int, ...], str]:
    return shape, dtype


def const(*values: int, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


def scalar(value: int, dtype: str = "int32") -> np.ndarray:
    return np.array(value, dtype)


F, I64 = "float32", "int64"
SEGMENTS = [fed((3,)), fed((3,), "int32")]
WINDOW = [fed((7,)), fed(())]
BAD: list[tuple[str, list[Any], str, dict[str, Any], str]] = [
    ("BITWISE_XOR", [fed((2, 3), "int8"), fed((2,), "int8")], "int8", {}, "do not broadcast"),
    ("BITWISE_XOR", [fed((3,), "int8"), fed((3,), "int16")], "int8", {}, "of one type"),
    ("BITWISE_XOR", [fed((3,)), fed((3,))], F, {}, "takes int16, int32, int8"),
    ("RIGHT_SHIFT", [fed((7,), "int32"), fed((3,), "int32")], "int32", {}, "do not broadcast"),
    ("RIGHT_SHIFT", [fed((7,), I64), fed((7,), I64)], I64, {}, "takes int16, int32, int8"),
    ("BITCAST", [fed((2, 3), "uint8")], "int16", {}, "needs a last axis of 2"),
    ("BITCAST", [fed((), "uint8")], "int32", {}, "needs a last axis of 4"),
    ("BITCAST", [fed((3,), "string")], "int32", {}, "not string"),
    ("DYNAMIC_UPDATE_SLICE", [fed((3, 5)), fed((4, 2)), fed((2,), "int32")], F, {},
     "none of them longer"),
    ("DYNAMIC_UPDATE_SLICE", [fed((3, 5)), fed((2,)), fed((2,), "int32")], F, {}, "its type and"),
    ("DYNAMIC_UPDATE_SLICE", [fed((3, 5)), fed((1, 1)), fed((1,), "int32")], F, {},
     r"int32 or int64 \[2\]"),
    ("DYNAMIC_UPDATE_SLICE", [fed((3,)), fed((1,)), fed((1,), "int16")], F, {}, "int32 or int64"),
    ("UNSORTED_SEGMENT_SUM", [*SEGMENTS, scalar(-1)], F, {}, "must not be below 0"),
    ("UNSORTED_SEGMENT_MAX", [*SEGMENTS, scalar(0x7FFFFFFF)], F, {}, "[0-9]+"),
    ("UNSORTED_SEGMENT_MIN", [*SEGMENTS, scalar(1)], F, {}, "segment number 1 is out of range"),
    ("UNSORTED_SEGMENT_PROD", [*SEGMENTS, const(1, 2)], F, {}, "is 2 numbers"),
    ("UNSORTED_SEGMENT_SUM", [fed((3,)), fed((2,), "int32"), scalar(2)], F, {}, "leading axes"),
    ("UNSORTED_SEGMENT_SUM", [fed((3,)), fed((3,), I64), scalar(2)], F, {}, "should be int32"),
    ("DILATE", [fed((3, 5)), const(1, 0), fed(())], F, {}, "1 or more"),
    ("DILATE", [fed((3, 5)), const(-2, 1), fed(())], F, {}, "1 or more"),
    ("DILATE", [fed((3, 5)), const(2), fed(())], F, {}, r"int32 \[2\]"),
    ("DILATE", [fed((3,)), const(2, dtype=I64), fed(())], F, {}, "should be int32"),
    ("DILATE", [fed((3,)), const(2), fed((2,))], F, {}, "not one float32"),
    ("DILATE", [fed((3,)), const(2), fed((), "int32")], F, {}, "not one float32"),
    ("DILATE", [fed((3, 5)), const(2**31 - 1, 2**31 - 1), fed(())], F, {}, "absurdly large"),
    ("REDUCE_WINDOW", [*WINDOW, *[const(n, dtype=I64) for n in (0, 1, 1)]], F,
     {"reduce_function": 1}, "the window .0. for .* from 1 on"),
    ("REDUCE_WINDOW", [*WINDOW, *[const(n, dtype=I64) for n in (2, 0, 1)]], F,
     {"reduce_function": 1}, "the strides .0. for"),
    ("REDUCE_WINDOW", [*WINDOW, *[const(n, dtype=I64) for n in (2, 1, -1)]], F,
     {"reduce_function": 1}, "the dilations .-1. for"),
    ("REDUCE_WINDOW", [*WINDOW, const(2, 2, dtype=I64), *[const(1, dtype=I64)] * 2], F,
     {"reduce_function": 1}, "one number for each axis"),
    ("REDUCE_WINDOW", [*WINDOW, const(1 << 40, dtype=I64), *[const(1, dtype=I64)] * 2], F,
     {"reduce_function": 1}, "places along an axis"),
    ("REDUCE_WINDOW", [*WINDOW, *[const(1, dtype=I64)] * 3], F, {"reduce_function": 0},
     "function number 0"),
    ("REDUCE_WINDOW", [fed((7,)), fed((2,)), *[const(1, dtype=I64)] * 3], F,
     {"reduce_function": 1}, "not one float32"),
    ("REDUCE_ALL", [fed((3,), "int32"), const(0)], "bool", {}, "takes bool"),
    ("REDUCE_ALL", [fed((3,), "bool"), const(1)], "bool", {}, "axis 1 does not exist"),
    ("GELU", [fed((3,), "int32")], "int32", {}, "takes float32, int16, int8, uint8"),
    ("ATAN2", [fed((2, 3)), fed((3,))], F, {}, "has the coordinates"),
    ("BROADCAST_TO", [fed((3,)), const(2, 4)], F, {}, r"has the shapes \[3\] and \[2, 4\]"),
    ("BROADCAST_TO", [fed((3,)), const(-1, 3)], F, {}, "0 or more"),
    ("BROADCAST_TO", [fed((1,)), const(*[2**31 - 1] * 4)], F, {}, "absurdly large"),
    ("BROADCAST_TO", [fed((1,)), const(*[1] * 9)], F, {}, "9 axes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inputs", "made", "given", "problem"),
    BAD,
    ids=[f"{b[0]}{i}" for i, b in enumerate(BAD)],
)
def test_refused(
    name: str, inputs: list[Any], made: str, given: dict[str, Any], problem: str, save: Save
) -> None:
    net, feeds = Net(), {}
    places = []
    for number, tensor in enumerate(inputs):
        if isinstance(tensor, np.ndarray):
            places.append(net.tensor(f"x{number}", tensor.shape, tensor.dtype.name, data=tensor))
            continue
        shape, dtype = tensor
        places.append(net.tensor(f"x{number}", shape, dtype))
        net.inputs = [*net.inputs, places[-1]]
        one = b"a" if dtype == "string" else 1
        feeds[f"x{number}"] = np.full(shape, one, object if dtype == "string" else dtype)
    net.outputs = [net.tensor("y", (), made)]
    net.add(name, places, net.outputs, given or None)
    path = save(net.file())
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(VknnError, match=problem) as caught, Session(path, device="numpy") as s:
            s.run(feeds)
        assert name in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < MUCH
        assert time.process_time() - begin < SECONDS
    finally:
        tracemalloc.stop()
