"""Inputs of the tools (verify, profile, bench, static profiles): what users may give wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.crosscheck import verify
from vknn.profiling import (
    ASSUMPTIONS,
    StaticProfile,
    bench,
    profile,
    static,
    static_difference,
)
from vknn.tool_inputs import complete_feeds

TOOLS = {"verify": verify, "profile": profile, "bench": bench}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_small_model(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"data": (-1, 3, 4)}, "sizes are 0 to 2,147,483,647"),
        ({"data": (1 << 31, 3, 4)}, "sizes are 0 to 2,147,483,647"),
        ({"data": "3,4"}, "is '3,4', not whole numbers"),
        ({"data": ("a", 3)}, "not whole numbers"),
        ({"data": (True, 3)}, "not whole numbers"),
        ({"data": (3, 4.5)}, "not whole numbers"),
        ({"data": (None, 3)}, "not whole numbers"),
        ({"data": 3}, "is 3, not whole numbers"),
        ({"data": None}, "is None, not whole numbers"),
        ([3, 4], r"shapes are a mapping of names, not \[3, 4\]"),
        ("x", "shapes are a mapping of names, not 'x'"),
        ({3: (1,)}, r"unknown input 3 \(the inputs: 'data'\)"),
        ({3: (1,), "x": (1,)}, "unknown input 3, 'x'"),
    ],
)
def test_shapes_that_are_none(tool: str, shapes: Any, text: str, model: Path) -> None:
    with pytest.raises(vknn.InputError, match=text):
        TOOLS[tool](model, shapes=shapes, device="numpy")


def test_shapes_as_numpy_has_them(model: Path) -> None:
    with vknn.Session(model, device="numpy") as session:
        for shape in (np.array(SHAPE), [np.int64(size) for size in SHAPE], list(SHAPE)):
            assert complete_feeds(session, shapes={"data": shape})["data"].shape == SHAPE


@pytest.mark.parametrize("tool", TOOLS)
def test_an_array_without_its_name(tool: str, model: Path) -> None:
    """As runs take it, of a model with one input."""
    assert TOOLS[tool](model, np.ones(SHAPE, np.float32), device="numpy")
    with pytest.raises(vknn.InputError, match="input 'data' has the shape"):
        TOOLS[tool](model, 3, device="numpy")


def test_an_array_of_several_inputs(tmp_path: Path) -> None:
    path = tmp_path / "two.param"
    path.write_text("7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp c 2 1 a b c 0=0\n")
    path.with_suffix(".bin").touch()
    with pytest.raises(vknn.InputError, match=r"given by name, .* not as a ndarray .*: 'a', 'b'"):
        verify(path, np.ones(3, np.float32), device="numpy")


@pytest.mark.parametrize("seed", [-1, "x", 2.5])
def test_seeds_that_are_none(seed: Any, model: Path) -> None:
    with pytest.raises(vknn.InputError, match="expected a whole number from 0 on"):
        verify(model, seed=seed, device="numpy")


def test_what_is_no_static_profile(tmp_path: Path) -> None:
    profile = StaticProfile("net", "GPU", ())
    for pair in ((profile, None), (3, profile)):
        with pytest.raises(vknn.VknnError, match="is no StaticProfile"):
            static_difference(*pair)  # type: ignore[arg-type]
    for text in (3, None, ["{}"]):
        with pytest.raises(vknn.VknnError, match="no static profile as JSON: the JSON object must"):
            StaticProfile.from_json(text)  # type: ignore[arg-type]
    for path in (3, None, b"x.json"):
        with pytest.raises(vknn.VknnError, match="is not the path of a file"):
            StaticProfile.load(path)  # type: ignore[arg-type]
    found = static_difference(profile, profile)
    for limit in (-1, 2.5, "x", True):
        for table in (profile.table, profile.counts_table, found.table):
            with pytest.raises(vknn.VknnError, match="expected a number of rows from 0 on"):
                table(limit)  # type: ignore[arg-type]


def test_assumptions_that_are_none(model: Path) -> None:
    with pytest.raises(vknn.VknnError, match="expected Assumptions, such as"):
        static(model, device="numpy", assumptions=2.0)  # type: ignore[arg-type]
    with pytest.raises(vknn.DeviceError, match="NumPy compiles nothing"):  # what is looked at next
        static(model, device="numpy", assumptions=ASSUMPTIONS.scaled(2))
