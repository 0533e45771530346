"""docs/ncnn.md is what tools/ncnn_table.py writes, and every layer has an example in it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ncnn_table", ROOT / "tools" / "ncnn_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ncnn_table"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_page_is_current(table: ModuleType) -> None:
    current = (ROOT / "docs" / "ncnn.md").read_text(encoding="utf-8")
    assert table.page() == current, "run tools/ncnn_table.py"


def test_every_layer_has_an_example(table: ModuleType) -> None:
    examples = table.all_examples()
    missing = {name for name in table.layer_types() if not examples.get(name, {}).get("nets")}
    assert missing <= {"Input"}, (
        f"{missing}: run tools/ncnn_table.py --record after a peer test was written, or put an "
        "example into WITHOUT_PEER there"
    )


def test_what_the_page_says() -> None:
    text = (ROOT / "docs" / "ncnn.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", text, re.MULTILINE))
    assert len(rows) >= 111  # the head counts
    assert rows["Tile"].startswith("yes | yes | yes |  | `tests/peers/ncnn/test_rearrange.py`")
    assert "- **Tile**: a 1-D blob is repeated whatever axis is" in text
    assert "- **RNN, GRU and LSTM**: " in text  # of a module of layers


def test_a_layer_without_a_kernel_is_found(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a layer runs on the device is asked of the rules."""
    nets = json.loads(table.EXAMPLES.read_text(encoding="utf-8"))["PixelShuffle"]["nets"]
    where = (table.DeviceLimits(), table.LoweringOptions())
    assert table._placement("PixelShuffle", nets, *where) == "yes"
    monkeypatch.setattr(table, "candidates", lambda *arguments: [])
    assert table._placement("PixelShuffle", nets, *where) == "without DepthToSpace, Slice"
    assert table._placement("PixelShuffle", [], *where) == "no example"
