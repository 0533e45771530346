"""``vknn bundle --check`` of a bundle whose example has no answer for one of its outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import rebuilt, relu, with_example

from vknn.bundle import Bundle, schema
from vknn.bundle.comparison import difference, unanswered
from vknn.bundle.records import BundleExample, BundlePort
from vknn.bundle.schema import Direction
from vknn.cli.main import main

pytestmark = pytest.mark.glsl


def answered() -> Bundle:
    """The bundle of one step with an example."""
    bundle = Bundle.of(relu())
    [port] = bundle.plans[0].inputs
    data = np.random.default_rng(0).standard_normal(port.shape).astype(np.float32)
    return Bundle.of(with_example(bundle, {"data": data}, {"y": np.maximum(data, 0)}))


def two_outputs(answers: bool = True) -> bytes:
    """A bundle with an output "y", answered or not, and "data", the same array by another name."""
    bundle = answered()
    ports = bundle.tables[schema.PORT]
    more = ports[ports["direction"] == Direction.OUTPUT].copy()
    more["name"] = ports["name"][ports["direction"] == Direction.INPUT]
    plans = bundle.tables[schema.PLAN].copy()
    plans["ports"] += 1
    examples = bundle.tables[schema.EXAMPLE][: None if answers else 1]  # the input's alone
    plans["examples"] = len(examples)
    changed = {
        "port": np.concatenate([ports, more]).tobytes(),
        "plan": plans.tobytes(),
        "example": examples.tobytes(),
    }
    return rebuilt(bundle, changed)


@pytest.mark.device
def test_what_is_not_compared_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.vkb"
    path.write_bytes(two_outputs())
    program = build.program(build.RUNNER / "main.c")
    arguments = ["bundle", str(path), "--check", "--runner", str(program)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["not compared"] == [{"plan": 0, "target": "generic", "output": "data"}]
    assert [row["output"] for row in document["checks"]] == ["y", "y"]
    assert main(arguments) == 0
    [line] = [x for x in capsys.readouterr().out.splitlines() if "not compared" in x]
    assert "the example has no answer for it" in line and " data " in line
    path.write_bytes(two_outputs(answers=False))
    assert main(arguments) == 2
    assert "it has no example" in capsys.readouterr().err


@pytest.mark.device
def test_it_is_silent_where_all_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = answered()
    assert unanswered(bundle.plans[0]) == []
    path = tmp_path / "net.vkb"
    path.write_bytes(bundle._bytes.tobytes())
    monkeypatch.setattr("vknn.bundle.native.missing_compiler", lambda: "not here")
    assert main(["bundle", str(path), "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not compared"] == []


def of_type(
    values: list[int] | list[float], dtype: str, absolute: float, relative: float = 0
) -> BundleExample:
    array = np.array(values, dtype)
    port = BundlePort(
        name="y", direction=Direction.OUTPUT, dtype=array.dtype, shape=array.shape, layout="",
        picture="", scale=None, zero_point=0, labels=(), open_axis=0, buffer=0, count=None,
    )  # fmt: skip
    return BundleExample(port, array, absolute, relative)


def test_integers_that_are_one_float_differ() -> None:
    large = 1 << 53
    for dtype in ("int64", "uint64"):
        told = of_type([large, large], dtype, 0)
        row = difference(told, np.array([large, large + 1], dtype), "x")
        assert (row.wrong, row.max_abs, row.worst) == (1, 1.0, (1,)), row
        assert difference(told, told.array.copy(), "x").ok
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    row = difference(of_type([least], "int64", 1e18), np.array([most]), "x")
    assert row.wrong == 1 and row.max_abs == 2.0**64
    row = difference(of_type([-5, 100], "int8", 3), np.array([-3, -100], np.int8), "x")
    assert (row.wrong, row.max_abs) == (1, 200.0)


def test_no_tolerance_takes_what_is_no_number() -> None:
    told = of_type([1e308], "float64", 0, 1e38)
    for wrong in (np.nan, np.inf, -np.inf):
        row = difference(told, np.array([wrong]), "x")
        assert row.wrong == 1 and not row.ok, row
