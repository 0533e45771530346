"""docs/coreml.md is what tools/coreml_table.py writes, and every layer stands in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import coreml_table as table

from vknn.errors import ShapeError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    """The page's tables: row -> cells."""
    text = (ROOT / "docs" / "coreml.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([A-Za-z0-9, ()-]+) \| (.*) \|$", text, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in found}


@pytest.mark.long
def test_the_page_is_current() -> None:
    current = (ROOT / "docs" / "coreml.md").read_text(encoding="utf-8")
    assert table.page() == current, "run tools/coreml_table.py"


def test_every_layer_has_a_row(rows: dict[str, list[str]]) -> None:
    names = table.layer_names()
    assert len(names) == 157  # and custom
    assert set(names) <= set(rows)
    assert {"leakyReLU", "SQRT", "rawValue, look-up table, 3 bits"} <= set(rows)


def test_no_gaps(rows: dict[str, list[str]]) -> None:
    assert not {name for name, cells in rows.items() if "no" in cells or "host" in cells}
    assert [name for name, cells in rows.items() if len(cells) > 2 and cells[2]] == [
        "layer"  # the title of the column
    ]


def test_parameters_and_kernels_are_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    example = next(e for e in table.examples() if e.row == "clip")
    read: dict[str, set[str]] = {}
    assert table.attempt(example, read) == set()
    assert read == {"clip": {"minVal", "maxVal"}}
    assert table.unread("clip", {"minVal"}) == ["maxVal"]
    monkeypatch.setattr("tools.kernels.candidates", lambda *arguments: [])
    assert table.attempt(example, read)
    assert table.Found().states == ("no", "no")
    assert table.Found(tried=1).states == ("yes", "yes")
    assert table.Found(tried=1, hosted={"Clip"}).states == ("yes", "host")
    problem = ShapeError("layer 'y' (clip): has no axes")
    assert table.Found([table._shown(problem)], tried=1).states == ("no", "no")
    assert table._shown(problem) == "has no axes"
