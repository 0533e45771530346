"""NumPy's warnings, which never come from vknn: NaN and infinities are numbers like others."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import net, write
from tests.helpers import single_op_graph, skip_without_half, variants
from tests.lowering.limits import DEVICES
from tests.lowering.op_cases import FAMILIES, with_epilogues
from tests.ops.test_special_values import FINITE
from tests.training import models
from tests.training.examples import points

import vknn
from vknn import reference
from vknn.lowering import lower


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """What NumPy would warn of is an error, as with np.seterr, and so is any warning."""
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_references(family: str) -> None:
    for case in FAMILIES[family]():
        arrays = [
            array if (type(case.op), number) in FINITE else _special(array)
            for number, array in enumerate(case.arrays())
        ]
        graph = single_op_graph(case.op, arrays, case.constants)
        taken = [n for n, a in enumerate(arrays) if a is not None and n not in case.constants]
        reference.run(graph, {f"x{n}": arrays[n] for n in taken})


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("family", FAMILIES)
def test_plans(family: str, kind: str) -> None:
    """Weights are packed whatever they hold."""
    limits = DEVICES[kind]
    for case in [*FAMILIES[family](), *with_epilogues(list(FAMILIES[family]()))]:
        if case.constants:
            graph = single_op_graph(case.op, [_special(a) for a in case.arrays()], case.constants)
            for precision in ("fp32", "fp16", "bf16"):
                for options in variants(graph, limits, precision):
                    lower(graph, limits, options)


@pytest.mark.parametrize("device", ["auto", "numpy"])
def test_sessions(device: str, tmp_path: Path) -> None:
    path = write(tmp_path, net("Input i 0 1 x", "UnaryOp l 1 1 x y 0=8", "UnaryOp e 1 1 y z 0=7"))
    x = np.array([[-1.0, 0.0, 1e38, np.inf, np.nan]], np.float32)
    with vknn.Session(path, device=device) as session:
        found = session.run({"x": x})["z"]
    assert np.isnan(found[0, [0, 4]]).all()


@pytest.mark.parametrize("device", [pytest.param("vulkan", marks=pytest.mark.device), "numpy"])
@pytest.mark.parametrize("number", [np.nan, np.inf, 3e38, 1e300, 1e-320])
def test_conversions_of_inputs(device: str, number: float, tmp_path: Path) -> None:
    path = write(tmp_path, net("Input i 0 1 x", "UnaryOp n 1 1 x y 0=1"))
    for precision in ("fp32",) if device == "numpy" else ("fp32", "fp16", "bf16"):
        if precision != "fp32":
            skip_without_half()
        with vknn.Session(path, device=device, precision=precision) as session:
            session.run({"x": np.array([[number, 1.0]])})
            vknn.verify(session, {"x": np.array([[number, 1.0]])}).to_json()


@pytest.mark.parametrize("number", [np.nan, np.inf, 3e38, 1e300, 1e-320])
@pytest.mark.parametrize("where", ["x", "y_true"])
def test_training(number: float, where: str, tmp_path: Path) -> None:
    data = {name: array.astype(np.float64) for name, array in points(5).items()}
    data[where][0] = number
    path = models.written(models.regressor(), tmp_path)
    with vknn.Session(path, device="numpy") as session:
        losses: list[float] = []
        with contextlib.suppress(vknn.VknnError):  # the loss is infinite
            losses = list(session.update(data, epochs=1).losses)
    assert losses or number != 1e-320
    assert np.isfinite(losses).all()


def _special(array: np.ndarray | None) -> np.ndarray | None:
    """The array with each of the numbers that NumPy may warn of, apart: NaN hides the others."""
    if array is not None and array.dtype.kind == "f" and array.size:
        array = array.copy()
        array.reshape(-1)[[0, array.size // 2, -1]] = [3e38, np.nan, np.inf]
    return array
