"""docs/tflite.md is what tools/tflite_table.py writes, and every operator stands in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tools import tflite_table as table

from vknn.formats.tflite import layers as _layers  # noqa: F401 (registers the operators)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, str]]:
    """The page's tables: operator -> element type -> cell."""
    text = (ROOT / "docs" / "tflite.md").read_text(encoding="utf-8")
    first, second = text.split("## Other element types")
    found: dict[str, dict[str, str]] = {}
    for part, kinds in ((first, table.USUAL), (second, table.UNUSUAL)):
        for name, rest in re.findall(r"^\| ([A-Z0-9_]+)(?: \\\*)? \| (.*) \|$", part, re.MULTILINE):
            cells = dict(zip(kinds, rest.split(" | "), strict=False))
            found[name] = found.get(name, {}) | cells
    return found


def stars() -> set[str]:
    """The operators that the page marks as those without a kernel."""
    text = (ROOT / "docs" / "tflite.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| ([A-Z0-9_]+) \\\* \|", text, re.MULTILINE))


@pytest.mark.long
def test_the_page_is_current() -> None:
    current = (ROOT / "docs" / "tflite.md").read_text(encoding="utf-8")
    assert table.page() == current, "run tools/tflite_table.py"


def test_every_operator_has_a_row(rows: dict[str, dict[str, str]]) -> None:
    names = table.operators()
    assert len(names) == 127 + 82
    assert (names[0], names[99], names[126]) == ("ADD", "SQUARED_DIFFERENCE", "BATCH_MATMUL")
    assert (names[127], names[-1]) == ("CUMSUM", "STABLEHLO_CASE")
    without = {"CUSTOM", "DELEGATE", "CONCAT_EMBEDDINGS", "STABLEHLO_CUSTOM_CALL"}
    assert set(rows) == set(names) - without
    assert all(set(cells.values()) & {"yes", "host", "no"} for cells in rows.values())


def test_operators_without_a_kernel_are_marked() -> None:
    marked = stars()
    assert len(marked) == 33 - 1  # STABLEHLO_CUSTOM_CALL has no row
    assert all(name.startswith("STABLEHLO_") for name in marked)
    assert "STABLEHLO_ABS" in marked
    assert "STABLEHLO_ADD" not in marked


def test_every_operator_has_an_example(rows: dict[str, dict[str, str]]) -> None:
    assert set(rows) <= set(table.all_examples())


def test_what_the_page_says(rows: dict[str, dict[str, str]]) -> None:
    assert rows["ADD"]["float32"] == rows["ADD"]["int8"] == "yes"
    assert rows["ADD"]["hybrid"] == rows["ADD"]["string"] == ""
    assert rows["CONV_2D"]["hybrid"] == "yes"
    assert rows["RESHAPE"]["string"] == "host"
    assert rows["FULLY_CONNECTED"]["int4"] == rows["BITWISE_XOR"]["int16"] == "yes"
    assert rows["BITWISE_XOR"]["uint16"] == "host"
    assert rows["BITWISE_XOR"]["float32"] == rows["ADD"].get("int4", "") == ""


def test_no_gaps(rows: dict[str, dict[str, str]]) -> None:
    gaps = {name for name, cells in rows.items() if "no" in cells.values()}
    assert not gaps


def test_options_and_kernels_are_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = json.loads(table.EXAMPLES.read_text(encoding="utf-8"))["LEAKY_RELU"]
    found, unread = table.attempts("LEAKY_RELU", examples, ("float32",))
    assert (found["float32"].state, unread) == ("yes", [])
    monkeypatch.setattr("tools.kernels.candidates", lambda *arguments: [])
    found, _ = table.attempts("LEAKY_RELU", examples, ("float32", "bool", "hybrid"))
    assert found["float32"] == table.Found("host", hosted=("LeakyRelu",))
    assert found["bool"].state == "no"
    assert found["hybrid"].problem == "there is no example"
    _, unread = table.attempts("POW", examples, ("float32",))
    assert unread == []
