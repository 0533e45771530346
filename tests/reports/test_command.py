"""``vknn profile --html`` and ``vknn report --html``, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.reports.documents import LIMITS
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli.main import main
from vknn.profiling import Profile, static


def data_of(path: Path) -> dict[str, Any]:
    block = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return json.loads(block[1])


@pytest.mark.device
def test_a_measured_profile_becomes_a_page_here_and_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, limits = write_small_model(tmp_path), tmp_path / "limits.json"
    limits.write_text(json.dumps(LIMITS))
    page, saved, again = (tmp_path / name for name in ("a.html", "a.vkprof", "b.html"))
    arguments = ["profile", str(model), "--shape", ",".join(map(str, SHAPE)), "--runs", "3"]
    arguments += ["--device", "vulkan", "--html", str(page), "--save", str(saved)]
    assert main([*arguments, "--device-limits", str(limits)]) == 0
    assert main(["report", str(saved), "--html", str(again)]) == 0
    assert "median us" in capsys.readouterr().out
    first, second = data_of(page), data_of(again)
    assert first["commands"]["median"] == second["commands"]["median"]
    assert first["static"] is not None
    assert all(entry is not None for entry in first["static"]["entries"])
    assert first["limits"]["copy"] == LIMITS["copy"]
    profile = Profile.load(saved)
    assert [t.median for t in profile.timings] == pytest.approx(
        first["commands"]["median"], abs=2e-3
    )
    assert any("void main" in line for line in first["lines"])


def test_a_profile_of_numpy_becomes_a_page(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    model = write_small_model(tmp_path)
    vknn.profile(model, runs=1, shapes={"data": SHAPE}, device="numpy").save_html(path)
    data = data_of(path)
    assert ["device", "NumPy"] in data["about"]
    assert len(data["commands"]["median"]) > 3


def test_a_page_is_of_one_measured_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_small_model(tmp_path)
    arguments = ["profile", str(model), "--static", "--html", str(tmp_path / "a.html")]
    assert main(arguments) == 2
    assert "leave out --static" in capsys.readouterr().err


@pytest.mark.device
def test_texts_of_machine_code_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    """llvmpipe gives none at all: asked for, they are empty and no field of the document."""
    model = write_small_model(tmp_path)
    found = static(model, shapes={"data": SHAPE}, texts=True, device="vulkan")
    assert all("texts" in entry.document() or not entry.texts for entry in found.entries)
    assert '"texts"' not in static(model, shapes={"data": SHAPE}, device="vulkan").to_json()
