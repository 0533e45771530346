"""docs/formats.md is what tools/formats_table.py writes, with every layer of every format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import formats_table

from vknn.graph import op_classes

ROOT = Path(__file__).resolve().parents[1]
#: Layers of which nothing is left to compute, or which decide what is computed next.
EMPTY = {
    "ncnn": "DeepCopy Input MemoryData Noop Packing Split",
    "TensorFlow Lite": "ASSIGN_VARIABLE BROADCAST_ARGS CALL CALL_ONCE DENSIFY HASHTABLE "
    "HASHTABLE_IMPORT HASHTABLE_SIZE IF RANGE RANK READ_VARIABLE SHAPE STABLEHLO_CASE "
    "STABLEHLO_COMPOSITE STABLEHLO_IOTA STABLEHLO_SORT STABLEHLO_WHILE VAR_HANDLE WHILE ZEROS_LIKE",
    "Core ML": "branch copy fillDynamic fillLike fillStatic getShape loadConstant loadConstantND "
    "loop loopBreak loopContinue rangeDynamic rangeStatic",
    "OpenVINO IR": "Const Input Memory PriorBox PriorBoxClustered Shape",
    "ONNX": "BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow If Loop "
    "Optional OptionalGetElement OptionalHasElement Range SequenceAt SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength SequenceMap Shape Size",
}


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def page() -> str:
    return formats_table.page()


def test_the_page_is_current(page: str) -> None:
    current = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert page == current, "run tools/formats_table.py"


def test_every_layer_of_every_format(page: str) -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)[1:]
    counts = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|$", page, re.MULTILINE))
    assert set(counts) == set(EMPTY)
    assert len(rows) == sum(map(int, counts.values()))
    assert int(counts.pop("TensorFlow Lite")) >= 144
    assert counts == {"ncnn": "110", "Core ML": "157", "OpenVINO IR": "74", "ONNX": "228"}
    for name, layers in EMPTY.items():
        own = {r[1]: r[2] for r in rows if r[0] == name}
        assert {n for n, text in own.items() if text == "–"} == set(layers.split()) & set(own)
    known = {cls.__name__ for cls in op_classes()}
    assert {op for r in rows for op in r[2].split(", ")} - {"–"} <= known


def test_what_the_page_says(page: str) -> None:
    assert "| OpenVINO IR | TensorIterator | GRU, Reshape, Slice" in page
    assert "| Core ML | innerProduct | " in page
    assert "| ncnn | Permute | Transpose |" in page
    assert "| ONNX | Einsum | Cast, " in page
