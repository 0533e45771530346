"""docs/onnx.md is what tools/onnx_table.py writes, and every operator stands in it."""

from __future__ import annotations

from pathlib import Path

from tools import onnx_table

from vknn.formats.onnx.layers import operator_types

PAGE = Path(__file__).resolve().parents[1] / "docs" / "onnx.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == onnx_table.page(), "run tools/onnx_table.py"


def test_every_operator_stands_in_it_with_a_meaning() -> None:
    rows = [line.split(" | ") for line in onnx_table.page().splitlines() if line.startswith("| ")]
    named = {row[0].removeprefix("| "): row for row in rows if len(row) == 5}
    for _, name in operator_types():
        assert name in named
    for (_, name), versions in operator_types().items():
        meaning = versions[max(versions)].convert.__doc__
        assert meaning, name


def test_the_types_of_onnxruntimes_operators_stand_in_it() -> None:
    """Those that the vectors have, by the record of where they run."""
    own = onnx_table.page().partition("## com.microsoft")[2].partition("## ")[0]
    assert "| FusedConv | 1 | float32 | – |" in own
    rows = [line.split(" | ") for line in own.splitlines() if line.startswith("| ")][1:]
    assert sum(row[2] != "–" or row[3] != "–" for row in rows) > 30
