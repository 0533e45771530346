"""docs/tflite.md is what tools/tflite_table.py writes, and every operator stands in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tools import tflite_table as table

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, str]]:
    """The page's table: operator -> element type -> cell."""
    text = (ROOT / "docs" / "tflite.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([A-Z0-9_]+) \| (.*) \|$", text, re.MULTILINE)
    return {name: dict(zip(table.KINDS, rest.split(" | "), strict=False)) for name, rest in found}


@pytest.mark.long
def test_the_page_is_current() -> None:
    current = (ROOT / "docs" / "tflite.md").read_text(encoding="utf-8")
    assert table.page() == current, "run tools/tflite_table.py"


def test_every_operator_has_a_row(rows: dict[str, dict[str, str]]) -> None:
    names = table.operators()
    assert len(names) == 127
    assert (names[0], names[99], names[126]) == ("ADD", "SQUARED_DIFFERENCE", "BATCH_MATMUL")
    assert set(rows) == set(names) - {"CUSTOM", "DELEGATE", "CONCAT_EMBEDDINGS"}
    assert all(set(cells.values()) & {"yes", "host", "no"} for cells in rows.values())


def test_every_operator_has_an_example(rows: dict[str, dict[str, str]]) -> None:
    assert set(rows) <= set(json.loads(table.EXAMPLES.read_text(encoding="utf-8")))


def test_what_the_page_says(rows: dict[str, dict[str, str]]) -> None:
    assert rows["ADD"]["float32"] == rows["ADD"]["int8"] == "yes"
    assert rows["ADD"]["hybrid"] == rows["ADD"]["string"] == ""
    assert rows["CONV_2D"]["hybrid"] == "yes"
    assert rows["RESHAPE"]["string"] == "host"


def test_no_gaps(rows: dict[str, dict[str, str]]) -> None:
    assert not {name for name, cells in rows.items() if "no" in cells.values()}


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
