"""Operators that move, choose and reduce, where TensorFlow Lite's kernels have their ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.tflite.test_operators import check, one, results

from vknn.errors import VknnError
from vknn.session import Session

Tensor = tuple[Any, ...]


def real(*shape: int) -> Tensor:
    return shape, "float32", {}


def held(data: Any, dtype: str = "int32") -> Tensor:
    return np.shape(data), dtype, {"data": np.array(data, dtype)}


def quantized(shape: tuple[int, ...], dtype: str, scale: float, zero: int = 0) -> Tensor:
    return shape, dtype, {"scale": scale, "zero_point": zero}


def numbers(tensor: Tensor) -> np.ndarray:
    rng = np.random.default_rng(3)
    if tensor[1] == "bool":
        return rng.integers(0, 2, tensor[0]).astype(bool)
    if tensor[1] == "float32":
        return rng.standard_normal(tensor[0]).astype(np.float32)
    info = np.iinfo(tensor[1])
    return rng.integers(info.min, info.max + 1, tensor[0]).astype(tensor[1])


def feeds(inputs: list[Tensor]) -> dict[str, np.ndarray]:
    return {f"x{i}": numbers(t) for i, t in enumerate(inputs) if "data" not in t[2]}


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")


def cut(begin: list[int], end: list[int], step: list[int], *masks: int) -> tuple[Any, ...]:
    given = dict(zip(MASKS, masks, strict=False))
    return [held(begin), held(end), held(step)], given


CUTS = [
    ((4,), cut([-5], [5], [1], 0, 0, 0, 0, 1)),  # an index before the first is the first
    ((2, 3), cut([0, 0], [1, 2], [1, 1], 0, 0, 3)),  # two ellipses
    ((2, 3), cut([0, 1, 1], [1, 3, 2], [1, 1, 1])),  # more entries than axes
    ((2, 3, 2), cut([0, 1, 0, 1], [1, 3, 2, 2], [1, 1, 1, 1], 0, 0, 1)),  # an ellipsis is one axis
    ((4,), cut([-3], [2], [1], 0, 0, 0, 0, 0, 1)),  # ends count from begins
    ((4,), cut([3], [-3], [-2], 0, 0, 0, 0, 0, 1)),
    ((2, 3, 4), cut([0, 0, -1], [1, 1, -2], [1, 1, -1], 0, 0, 1, 2)),
]


@pytest.mark.parametrize(("shape", "setting"), CUTS)
def test_strided_slice(
    shape: tuple[int, ...], setting: tuple[Any, ...], tmp_path: Path, backend: str
) -> None:
    inputs = [real(*shape), *setting[0]]
    net = one("STRIDED_SLICE", inputs, [real()], setting[1])
    check(net, feeds(inputs), tmp_path, backend)


SMALL = [
    # A shape that is no vector of int32 gives way to the options.
    ("RESHAPE", [real(2, 3), held([[3, 2]])], [real()], {"new_shape": [6]}),
    ("RESHAPE", [real(2, 3), held([3, 2], "int64")], [real()], {"new_shape": [6]}),
    ("RESHAPE", [real(1), held(1)], [real()], {"new_shape": [0]}),
    # Zeros are those of the output.
    ("PAD", [quantized((2, 3), "int8", 0.5, 3), held([[0, 1], [2, 0]])],
     [quantized((), "int8", 0.5, 5)], {}),
    # Single elements take the shape that the file says.
    ("SELECT", [((1,), "bool", {}), real(), real(1)], [real()], {}),
    ("SELECT_V2", [((), "bool", {}), real(1), real(1, 1)], [real()], {}),
    ("TOPK_V2", [real(2, 7), held(3, "int16")], [real(), ((), "int16", {})], {}),
    ("REDUCE_MAX", [real(0, 3), held([0])], [real()], {"keep_dims": True}),
    ("REDUCE_MIN", [((2, 0), "int32", {}), held([1])], [((), "int32", {})], {}),
    ("REDUCE_ANY", [((0,), "bool", {}), held([0])], [((), "bool", {})], {}),
    ("REDUCE_PROD", [((3, 5), "int8", {}), held([0])], [((), "int8", {})], {}),
    ("MEAN", [quantized((0, 3), "int8", 0.5, 7), held([0])], [quantized((), "int8", 0.2, 9)], {}),
    # The high bytes of products.
    ("MUL", [quantized((99,), "int16", 0.1)] * 2, [quantized((), "int8", 0.1, 5)], {}),
    ("MUL", [quantized((99,), "int16", 0.1)] * 2, [quantized((), "uint8", 0.1, 100)],
     {"fused_activation_function": 3}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "given"), SMALL, ids=[f"{s[0]}{i}" for i, s in enumerate(SMALL)]
)
def test_small(
    name: str,
    inputs: list[Tensor],
    outputs: list[Tensor],
    given: dict[str, Any],
    tmp_path: Path,
    backend: str,
) -> None:
    check(one(name, inputs, outputs, given), feeds(inputs), tmp_path, backend)


@pytest.mark.parametrize("scaled", ["both", "the output"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool", "int8", "int16", "uint8"])
def test_padding_of_tensors_with_a_scale(
    dtype: str, scaled: str, tmp_path: Path, backend: str
) -> None:
    """Floats and plain integers are padded with 0, whatever zero point stands in the file."""
    zero = 0 if dtype == "int16" else 3
    y = quantized((3, 5), dtype, 0.1, zero)
    x = quantized((2, 3), dtype, 0.1, zero) if scaled == "both" else ((2, 3), dtype, {})
    inputs = [x, held([[1, 0], [0, 2]])]
    check(one("PAD", inputs, [y]), feeds(inputs), tmp_path, backend)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool"])
def test_a_padding_of_another_scale(dtype: str, tmp_path: Path, backend: str) -> None:
    value = ((), dtype, {"data": np.array(1, dtype), "scale": 0.2, "zero_point": 1})
    inputs = [quantized((2, 3), dtype, 0.1, 3), held([[1, 0], [0, 2]]), value]
    y = quantized((3, 5), dtype, 0.3, 2)
    check(one("PADV2", inputs, [y]), feeds(inputs), tmp_path, backend)


@pytest.mark.parametrize("name", ["BITWISE_XOR", "RIGHT_SHIFT"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_bits_of_tensors_with_a_scale(name: str, dtype: str, tmp_path: Path, backend: str) -> None:
    scaled = quantized((2, 3), dtype, 0.1)
    inputs = [scaled, ((3,), dtype, {"data": np.array([0, 3, 5], dtype)})]
    check(one(name, inputs, [scaled]), feeds(inputs), tmp_path, backend)


@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
def test_extremes_of_nan(name: str, tmp_path: Path, backend: str) -> None:
    a = np.array([np.nan, 1, np.nan, np.inf, -np.inf, 2], np.float32)
    net = one(name, [real(6), real(6)], [real(6)])
    x = {"x0": a, "x1": np.roll(a, 1)}
    found, wanted = results(net, x, tmp_path, backend)
    np.testing.assert_array_equal(found["y0"], wanted["y0"])


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [((0, 3), [0, -1], (0, 3)), ((0,), [0, -1], (0, 1)), ((0, 0), [0, -1, 3], (0, 0, 3))],
)
def test_shapes_of_nothing(
    shape: tuple[int, ...], wanted: list[int], expected: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(one("RESHAPE", [real(*shape), held(wanted)], [real()], {}).file())
    with Session(path, device="numpy") as session:
        assert session.run({"x0": np.zeros(shape, np.float32)})["y0"].shape == expected


WRONG = [
    ("PACK", [real(2), real(2)], [real()], {"values_count": 3}),
    ("UNPACK", [real(3, 2)], [real(), real()], {"num": 3}),
    ("SPLIT", [held(1), real(2, 4)], [real(), real()], {"num_splits": 4}),
    ("PAD", [real(2), held([[1, 0]], "float32")], [real()], {}),
    ("PADV2", [real(2), held([[1, 0]]), held(1)], [real()], {}),
    ("MIRROR_PAD", [real(2, 0), held([[0, 0], [1, 0]])], [real()], {"mode": 1}),
    ("RANGE", [held(5), held(0), held(1)], [((), "int32", {})], {}),
    ("POW", [((2,), "int32", {}), held([1, -1])], [((), "int32", {})], {}),
    ("SELECT", [((2, 1), "bool", {}), real(2, 2), real(2, 2)], [real()], {}),
    ("REVERSE_SEQUENCE", [real(2, 3), held([4, 1])], [real()], {"seq_dim": 1}),
    ("STRIDED_SLICE", [real(4), held([4]), held([5]), held([1])], [real()],
     {"shrink_axis_mask": 1}),
    ("ADD", [quantized((2,), "int16", 0.1)] * 2, [quantized((), "int32", 0.1)], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "given"), WRONG, ids=[f"{w[0]}{i}" for i, w in enumerate(WRONG)]
)
def test_refused(
    name: str, inputs: list[Tensor], outputs: list[Tensor], given: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(one(name, inputs, outputs, given).file())
    with pytest.raises(VknnError, match=name), Session(path, device="numpy") as session:
        session.run(feeds(inputs))


@pytest.mark.parametrize(("dtype", "expected"), [("int16", 21429), ("int8", 50)])
def test_sums_of_the_ordinary_kernel(
    dtype: str, expected: int, tmp_path: Path, backend: str
) -> None:
    x = (
        np.array([[10000], [20000]], "int16")
        if dtype == "int16"
        else np.array([[30], [40]], "int8")
    )
    inputs = [quantized((2, 1), dtype, 0.5), held([0])]
    path = tmp_path / "net.tflite"
    path.write_bytes(one("SUM", inputs, [quantized((1,), dtype, 0.7)], {}).file())
    with Session(path, device="numpy" if backend == "numpy" else "auto") as session:
        assert session.run({"x0": x})["y0"].tolist() == [expected]
