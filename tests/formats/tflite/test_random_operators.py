"""Random operators, transforms and boundaries that cannot be: one clear error each, at once."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.tflite.test_operators import one
from tests.tflite_writer import Net

from vknn.errors import OutOfMemoryError, VknnError
from vknn.session import Session

Save = Callable[[bytes], Path]
SHAPE = ((2,), "int32", {})
FLOATS = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")


def attempt(path: Path, feeds: dict[str, np.ndarray], device: str = "numpy", **more: Any) -> str:
    """The error of opening or running it, which has to come quickly and without much memory."""
    begin = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(VknnError) as caught, Session(path, device=device, **more) as session:
            session.run(feeds)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - begin < 5
    assert peak < 1 << 24
    return str(caught.value)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("options", [{"seed": 1}, None])
def test_shapes(name: str, options: dict[str, int] | None, save: Save) -> None:
    path = save(one(name, [SHAPE], [((2, 2), "float32", {})], options).file())
    for shape, problem in (
        ([-1, 3], "no axis may have a size below 0"),
        ([1 << 20, 1 << 20], "absurdly large"),
        ([0, -(1 << 31)], "below 0"),
        ([(1 << 31) - 1, (1 << 31) - 1], "absurdly large"),
    ):
        text = attempt(path, {"x0": np.array(shape, np.int32)})
        assert problem in text and name in text and "'y0'" in text
    large = {"x0": np.array([1 << 15, 1 << 15], np.int32)}
    with Session(path, device="numpy", memory_limit="100MB") as session:
        with pytest.raises(OutOfMemoryError):
            session.run(large)
        assert session.run({"x0": np.array([3, 5], np.int32)})["y0"].shape == (3, 5)


def test_shapes_that_are_none(save: Save) -> None:
    for given in (((2,), "int64", {}), ((2, 1), "int32", {}), ((), "int32", {})):
        net = one("RANDOM_UNIFORM", [given], [((2, 2), "float32", {})], {"seed": 1})
        text = attempt(save(net.file()), {"x0": np.zeros(given[0], given[1])})
        assert "takes a shape as int32 [n]" in text and "RANDOM_UNIFORM" in text
    net = one("RANDOM_UNIFORM", [SHAPE], [((2, 2), "int32", {})], {"seed": 1})
    assert "declared int32" in attempt(save(net.file()), {"x0": np.array([2, 2], np.int32)})


@pytest.mark.parametrize("seed", [(1 << 63) - 1, -(1 << 63), 1 << 31, -(1 << 31), 1 << 32])
def test_seeds_of_64_bits(seed: int, save: Save) -> None:
    data = {"data": np.int32([3, 2])}
    for options in ({"seed": seed}, {"seed2": seed}, {"seed": seed, "seed2": seed}):
        net = one("RANDOM_UNIFORM", [((2,), "int32", data)], [((3, 2), "float32", {})], options)
        with Session(save(net.file()), device="numpy") as session:
            y = session.run({})["y0"]
        assert y.shape == (3, 2) and y.min() >= 0 and y.max() < 1


def multinomial(shape: tuple[int, ...], dtype: str = "float32", made: str = "int32") -> Net:
    inputs = [(shape, dtype, {}), ((), "int32", {})]
    return one("MULTINOMIAL", inputs, [((2, 3), made, {})], {"seed": 1})


def test_multinomial(save: Save) -> None:
    path = save(multinomial((2, 5)).file())
    x = np.zeros((2, 5), np.float32)
    for count, problem in ((-1, "num_samples must not be below 0"), (-(1 << 31), "below 0"),
                           ((1 << 31) - 1, "absurdly large")):  # fmt: skip
        text = attempt(path, {"x0": x, "x1": np.int32(count)})
        assert problem in text and "MULTINOMIAL" in text
    with Session(path, device="numpy", memory_limit="100MB") as session:
        with pytest.raises(OutOfMemoryError):
            session.run({"x0": x, "x1": np.int32(1 << 29)})
        assert session.run({"x0": x, "x1": np.int32(0)})["y0"].shape == (2, 0)
    for net in (multinomial((2, 0)), multinomial((5,)), multinomial((2, 5), "int32")):
        tensor = net.tensors[0].fields
        feed = np.zeros(tensor["shape"], np.int32 if tensor["type"] == 2 else np.float32)
        text = attempt(save(net.file()), {"x0": feed, "x1": np.int32(3)})
        assert "takes logits of float32 [rows, classes] with a class" in text
    text = attempt(save(multinomial((2, 5), made="float32").file()), {"x0": x, "x1": np.int32(3)})
    assert "declared float32" in text


def bits(
    state: tuple[int, ...], dtype: str = "uint64", made: str = "uint32", algorithm: int = 1,
    shape: tuple[int, ...] = (3,), **fields: Any,
) -> Net:  # fmt: skip
    held = (state, dtype, {})
    return one("STABLEHLO_RNG_BIT_GENERATOR", [held], [held, (shape, made, fields)],
               {"algorithm": algorithm})  # fmt: skip


@pytest.mark.parametrize(
    "net, problem",
    [
        (bits((1,)), "uint64 [2 or 3]"),
        (bits((4,)), "uint64 [2 or 3]"),
        (bits((3,), algorithm=2), "uint64 [2] with the algorithm threefry"),
        (bits((2, 1)), "uint64 [2 or 3]"),
        (bits((0,)), "uint64 [2 or 3]"),
        (bits((2,), "int64"), "takes a state of uint64"),
        (bits((2,), "float32"), "takes a state of uint64"),
        (bits((2,), made="float32"), "not float32"),
        (bits((2,), made="int8"), "not int8"),
        (bits((2,), algorithm=3), "algorithm is 3"),
        (bits((2,), algorithm=-1), "algorithm is -1"),
    ],
)
def test_states(net: Net, problem: str, save: Save) -> None:
    tensor = net.tensors[0].fields
    dtypes: dict[int, Any] = {0: np.float32, 4: np.int64, 12: np.uint64}
    text = attempt(save(net.file()), {"x0": np.zeros(tensor["shape"], dtypes[tensor["type"]])})
    assert problem in text and "STABLEHLO_RNG_BIT_GENERATOR" in text


def test_an_open_shape_of_bits(save: Save) -> None:
    feeds, open_shape = {"x0": np.zeros(2, np.uint64)}, {"shape_signature": [-1, 1]}
    text = attempt(save(bits((2,), shape=(3, 1), **open_shape).file()), feeds)
    assert "give output 1 a fixed shape" in text
    with Session(save(bits((2,), shape=(3, 1)).file()), device="numpy") as session:
        assert session.run(feeds)["y1"].shape == (3, 1)


def test_too_many_bits(save: Save) -> None:
    path = save(bits((2,), made="uint64", shape=(1 << 15, 1 << 14)).file())
    text = attempt(path, {"x0": np.zeros(2, np.uint64)}, memory_limit="100MB")
    assert "memory" in text


def test_fft_lengths(save: Save) -> None:
    net = one("RFFT2D", [((3, 5), "float32", {}), SHAPE], [((2, 2), "complex64", {})], {})
    path, x = save(net.file()), np.zeros((3, 5), np.float32)
    for lengths, problem in (
        ([0, 4], "each a power of two"),
        ([4, -4], "each a power of two"),
        ([3, 4], "each a power of two"),
        ([-(1 << 31), 4], "each a power of two"),
        ([1 << 30, 1 << 30], "absurdly large"),
    ):
        text = attempt(path, {"x0": x, "x1": np.array(lengths, np.int32)})
        assert problem in text and "RFFT2D" in text
    text = attempt(
        path, {"x0": x, "x1": np.array([1 << 14, 1 << 14], np.int32)}, memory_limit="100MB"
    )
    assert "memory" in text
    net = one("RFFT2D", [((5,), "float32", {}), SHAPE], [((2,), "complex64", {})], {})
    text = attempt(save(net.file()), {"x0": x[0], "x1": np.array([1, 2], np.int32)})
    assert "[..., height, width]" in text
    net = one("RFFT2D", [((3, 5), "float32", {}), ((1,), "int32", {})],
              [((2, 2), "complex64", {})], {})  # fmt: skip
    assert "must be two" in attempt(save(net.file()), {"x0": x, "x1": np.array([4], np.int32)})


@pytest.mark.parametrize("boundaries", [[1, 0], [0, 2, 1], [np.nan], [0, np.nan], [np.inf, 0]])
def test_boundaries(boundaries: list[float], save: Save) -> None:
    given = {"boundaries": np.float32(boundaries)}
    net = one("BUCKETIZE", [((2,), "float32", {})], [((2,), "int32", {})], given)
    text = attempt(save(net.file()), {"x0": np.zeros(2, np.float32)})
    assert "boundaries that do not ascend; sort them" in text and "BUCKETIZE" in text


def test_types(save: Save) -> None:
    for dtype in ("int8", "uint8", "bool"):
        net = one("BUCKETIZE", [((2,), dtype, {})], [((2,), "int32", {})], {})
        assert f"not {dtype}" in attempt(save(net.file()), {"x0": np.zeros(2, dtype)})
    for name in ("REAL", "IMAG", "COMPLEX_ABS"):
        net = one(name, [((2,), "float32", {})], [((2,), "float32", {})])
        text = attempt(save(net.file()), {"x0": np.zeros(2, np.float32)})
        assert "takes complex64 or complex128, not float32" in text
    net = one("REAL", [((2,), "complex128", {})], [((2,), "float32", {})])
    assert "declared float32" in attempt(save(net.file()), {"x0": np.zeros(2, np.complex128)})
