"""Inputs that become part of the network: ``vknn export --fixed``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, value

import vknn
from vknn.bundle import Bundle
from vknn.cli.main import main
from vknn.errors import ExportError, InputError
from vknn.graph import DType

pytestmark = pytest.mark.glsl


def copied(folder: Path, dtype: DType, dims: tuple[int | None, ...] | None) -> Path:
    """A network that gives an input k of a type and shape as it is, beside another."""
    nodes = [node("Relu", "x"), node("Identity", "k", "z")]
    body = graph(
        nodes, [value("x"), value("k", dims, dtype)], [value("y"), value("z", dims, dtype)]
    )
    return save(model(body), folder)


def exported(path: Path, *fixed: str, more: tuple[str, ...] = ()) -> np.ndarray:
    """What a bundle with k fixed gives for z."""
    out = path.with_suffix(".vkb")
    options = [part for text in fixed for part in ("--fixed", text)]
    assert main(["export", str(path), "-o", str(out), *options, *more]) == 0
    [plan] = Bundle.open(out).plans
    assert [port.name for port in plan.inputs] == ["x"]
    [answer] = [e.array for e in plan.examples if e.port.name == "z"]
    return answer


@pytest.mark.parametrize(
    ("dtype", "dims", "text", "wanted"),
    [
        (DType.INT64, (1,), "9007199254740993", [9007199254740993]),
        (DType.INT64, (2,), "-9007199254740993,9223372036854775807",
         [-9007199254740993, 9223372036854775807]),
        (DType.UINT64, (1,), "18446744073709551615", [18446744073709551615]),
        (DType.INT64, (None,), "5", [5]),
        (DType.INT64, (None,), "5,7,-3", [5, 7, -3]),
        (DType.FLOAT32, (None, 3), "2.5", [[2.5, 2.5, 2.5]]),
        (DType.INT32, (2, 2), "7.0", [[7, 7], [7, 7]]),
        (DType.INT32, (2, 2), "1, 2,3,4", [[1, 2], [3, 4]]),
        (DType.INT8, (), "-7", -7),
        (DType.BOOL, (2,), "true,0", [True, False]),
    ],
)  # fmt: skip
def test_numbers(
    dtype: DType, dims: tuple[int | None, ...], text: str, wanted: object, tmp_path: Path
) -> None:
    found = exported(copied(tmp_path, dtype, dims), f"k={text}")
    assert found.dtype == dtype.numpy
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("dtype", "text", "told"),
    [
        (DType.INT64, "5.5", "'k' is of int64, which '5.5' is not"),
        (DType.INT64, "9223372036854775808", "'k' is of int64, which"),
        (DType.UINT8, "-1,2", "'k' is of uint8, which"),
        (DType.UINT8, "256,2", "'k' is of uint8, which"),
        (DType.INT64, "inf", "'k' is of int64, which"),
        (DType.BOOL, "2", "'k' is of bool, which"),
        (DType.INT64, "1,2,3", "neither as many numbers as it has"),
        (DType.INT64, "five", "neither as many numbers as it has"),
        (DType.INT64, "", "neither as many numbers as it has"),
    ],
)
def test_wrong_numbers(
    dtype: DType, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied(tmp_path, dtype, (2,))
    out = tmp_path / "net.vkb"
    assert main(["export", str(path), "-o", str(out), "--fixed", f"k={text}"]) == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_a_shape_beside_a_fixed_array(tmp_path: Path) -> None:
    path, out = copied(tmp_path, DType.INT64, (None,)), tmp_path / "net.vkb"
    fixed = {"k": np.arange(2)}
    with pytest.raises(InputError, match=r"'k' is fixed to an array of shape \[2\] .* \[3\]"):
        vknn.export(path, out, fixed=fixed, shapes={"k": (3,)})
    for fixed in ({"k": np.arange(2)}, {"k": 3}):
        vknn.export(path, out, fixed=fixed, shapes={"k": (2,)})
        assert Bundle.open(out).plans[0].shapes == "x=2,3"


def test_one_number_fills_each_set_of_shapes(tmp_path: Path) -> None:
    body = graph(
        [node("Add", "x k", "y")], [value("x", (None, 4)), value("k", (None, 4))], [value("y")]
    )
    path, out = save(model(body), tmp_path), tmp_path / "net.vkb"
    shapes = [part for n in (2, 3) for part in ("--shape", f"x={n},4", "--shape", f"k={n},4")]
    assert main(["export", str(path), "-o", str(out), *shapes, "--fixed", "k=1.5"]) == 0
    plans = Bundle.open(out).plans
    assert [plan.shapes for plan in plans] == ["x=2,4", "x=3,4"]
    for plan in plans:
        x, y = (example.array for example in plan.examples)
        np.testing.assert_array_equal(y, x + np.float32(1.5))
    vknn.export(path, out, shapes={"x": (2, 4), "k": (2, 4)}, fixed={"k": np.float32(1.5)})
    assert Bundle.open(out).plans[0].shapes == "x=2,4"


def test_a_number_for_a_shape_beyond_the_target_is_not_spread(tmp_path: Path) -> None:
    path, out = copied(tmp_path, DType.INT64, (None, None)), tmp_path / "net.vkb"
    with pytest.raises(ExportError, match=r"'k': a tensor of 39,999,999,200,000,004 bytes"):
        vknn.export(path, out, fixed={"k": 1}, shapes={"k": (99999999, 99999999)})
