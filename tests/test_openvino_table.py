"""docs/openvino.md is what tools/openvino_table.py writes, and every layer stands in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import openvino_examples, openvino_table

ROOT = Path(__file__).resolve().parents[1]
#: Attributes that nothing has to read: leftovers, and what sizes of ports and blobs say too.
IDLE = {
    "Memory": "size", "PReLU": "channel_shared", "PriorBoxClustered": "flip",
    "Proposal": "for_deformable", "ScaleShift": "broadcast", "RegionYolo": "anchors",
    "SimplerNMS": "cls_threshold",
}  # fmt: skip


@pytest.fixture(scope="module")
def page() -> str:
    return openvino_table.page()


@pytest.fixture(scope="module")
def rows(page: str) -> dict[str, list[str]]:
    """Layer -> cells of the page's table."""
    found = re.findall(r"^\| (\w+) \| (.*) \|$", page, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split(" | ")] for name, rest in found[1:]}


@pytest.mark.long
def test_the_page_is_current(page: str) -> None:
    current = (ROOT / "docs" / "openvino.md").read_text(encoding="utf-8")
    assert page == current, "run tools/openvino_table.py"


@pytest.mark.long
def test_every_layer_has_a_row_and_an_example(rows: dict[str, list[str]]) -> None:
    known = openvino_examples.layers()
    assert len(known) == 74
    assert set(rows) == set(known)
    assert all(any(True for _ in openvino_examples.examples(name)) for name in known)


@pytest.mark.long
def test_no_gaps(rows: dict[str, list[str]]) -> None:
    assert not {name for name, cells in rows.items() if cells[:3] != ["yes"] * 3}
    assert {name: cells[3] for name, cells in rows.items() if cells[3]} == IDLE


def test_kernels_and_attributes_are_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    found = openvino_table.tried("ReLU")
    assert (found.ops, found.hosted) == ({"Relu", "LeakyRelu"}, set())
    assert found.asked == {"negative_slope"}
    monkeypatch.setattr(openvino_table, "candidates", lambda *arguments: [])
    assert openvino_table.tried("ReLU").hosted == {"Relu", "LeakyRelu"}
    monkeypatch.setitem(
        openvino_examples.CASES,
        "ReLU",
        [((), [(1,)], {}, {}, ())],  # no input
    )
    assert "takes 1 inputs, not 0" in openvino_table.tried("ReLU").problem
