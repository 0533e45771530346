"""Counters in a profile's file: they come back, are shown, and no file is believed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.profiling.profile_documents import command, document

from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.profiling import Profile, read_document
from vknn.profiling.vkprof import write_document
from vknn.reports.data import report_data

SECONDS = np.full((2, 2), 1e-5)
COUNTER = {
    "name": "L2 hits", "category": "memory", "description": "what was found", "unit": "%",
    "by_command": True, "slows": False, "index": 3, "storage": 4,
}  # fmt: skip
ROW = {
    "where": "vulkan", "kernel": "convolution/conv", "label": "Conv tile", "layers": ["conv1"],
    "groups": [1, 1, 1], "flops": 1000, "nbytes": 100, "values": [12.5, -3],
}  # fmt: skip


def counters(**more: Any) -> dict[str, Any]:
    fill = {**ROW, "kernel": "fill", "layers": [], "groups": None, "values": [None, 1e18]}
    names = [COUNTER, {**COUNTER, "name": "waves", "unit": "", "index": 4}]
    return {"by": "commands", "passes": 2, "counters": names, "rows": [ROW, fill], **more}


def made(found: Any) -> dict[str, Any]:
    return document([command(["conv1"]), command(["fc"])], SECONDS) | {"counters": found}


def test_they_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, again = tmp_path / "a.vkprof", tmp_path / "b.vkprof"
    write_document(path, made(counters()))
    profile = Profile.load(path)
    found = profile.counters
    assert found is not None
    assert (found.by, found.passes, found.device) == ("commands", 2, "device")
    assert [(c.name, c.unit) for c in found.counters] == [("L2 hits", "%"), ("waves", "")]
    assert [e.layers for e in found.entries] == [("conv1",), ()]
    assert found.entries[1].groups is None
    np.testing.assert_array_equal(found.values, [[12.5, -3], [np.nan, 1e18]])
    assert json.loads(json.dumps(found.document())) == counters()
    profile.save(again)
    assert read_document(again) == read_document(path)
    assert json.loads(profile.to_json())["counters"] == counters()
    assert main(["report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "by commands, run 2 times" in text and "L2 hits (%)" in text and "12.5" in text
    assert main(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"]["passes"] == 2


def test_files_without_are_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of before the field, and those that nobody asked for counters."""
    old = made(None)
    del old["counters"]
    for found in (old, made(None)):
        write_document(tmp_path / "a.vkprof", found)
        profile = Profile.load(tmp_path / "a.vkprof")
        assert profile.counters is None
        assert "counters" not in json.loads(profile.to_json())
        assert report_data(found)["counters"] is None
        assert main(["report", str(tmp_path / "a.vkprof")]) == 0
        assert "by commands" not in capsys.readouterr().out


def test_no_rows_at_all() -> None:
    """A network that nothing on the device computes."""
    found = Profile.from_document(made(counters(rows=[]))).counters
    assert found is not None and found.values.shape == (0, 2)


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("by", "frames", "by: one of commands, submits"),
        ("passes", -1, "passes"),
        ("counters", [], "a list of at least 1"),
        ("counters.0.name", 3, r"counters\[0\]\.name"),
        ("counters.1.index", 1 << 70, r"counters\[1\]\.index"),
        ("rows.1.values", [1.0], r"rows\[1\]\.values: a list of 2"),
        ("rows.0.values.0", "x", r"rows\[0\]\.values\[0\]"),
        ("rows.0.values.0", 10**400, r"rows\[0\]\.values\[0\]"),
        ("rows.0.values.0", True, r"rows\[0\]\.values\[0\]"),
        ("rows.0.layers", "conv1", r"rows\[0\]\.layers"),
        ("rows.0.groups", [1], r"rows\[0\]\.groups"),
        ("rows.0.flops", None, r"rows\[0\]\.flops"),
        ("rows", None, "rows: a list"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, place: str, value: Any, told: str) -> None:
    found = copy.deepcopy(counters())
    *way, last = [int(p) if p.isdecimal() else p for p in place.split(".")]
    inner: Any = found
    for step in way:
        inner = inner[step]
    inner[last] = value
    write_document(tmp_path / "a.vkprof", made(found))
    with pytest.raises(VknnError, match=rf"a\.vkprof: damaged profile: counters.*{told}"):
        read_document(tmp_path / "a.vkprof")


def test_hostile_names() -> None:
    """A driver's, or a file's, are shown as they are, in one line."""
    hostile = [{**COUNTER, "name": "[red]x[/", "unit": "\x1b[2J"}, COUNTER]
    found = Profile.from_document(made(counters(counters=hostile))).counters
    text = str(found)
    assert "[red]x[/" in text and "\x1b" not in text
    page = report_data(made(counters(counters=hostile)))["counters"]
    assert page["names"][0][0] == "[red]x[/"
