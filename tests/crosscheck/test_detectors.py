"""Agreement of a detector's boxes on the command line, of one picture and over many."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn.cli import main
from vknn.lowering.kit.emitter import Emitter

pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.device
DATA = Path(__file__).parents[2] / "examples" / "data"
RECIPE = {
    "task": "detection",
    "input": {"std": [255]},
    "decode": {"kind": "rows", "rows": "found"},
    "labels": "squares.txt",
}
#: Convolutions of RFB-320 that say where boxes are.
RFB_BOXES = ("331", "377", "417", "447")
#: Change of an array.
Change = Callable[[np.ndarray], np.ndarray]


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """The example's detector of coloured squares, four in its picture, with a recipe beside it."""
    for name in ("squares.param", "squares.bin", "squares.png", "squares.txt"):
        shutil.copy(DATA / name, tmp_path / name)
    (tmp_path / "squares.recipe.json").write_text(json.dumps(RECIPE))
    return tmp_path / "squares.param"


def plant(monkeypatch: pytest.MonkeyPatch, change: Change, *layers: str) -> None:
    """A fault: kernels of these layers have other weights."""
    right = Emitter.weight

    def weight(self: Emitter, key: str, make: Any, *sources: Any, single: bool = False) -> Any:
        if set(layers).isdisjoint(self.nodes):
            return right(self, key, make, *sources, single=single)
        return right(self, f"{key} wrong", lambda: change(make()), *sources, single=single)

    monkeypatch.setattr(Emitter, "weight", weight)


def verified(
    capsys: pytest.CaptureFixture[str], code: int, model: Path, *inputs: Path
) -> dict[str, Any]:
    """The agreement that ``vknn verify --metrics`` reports."""
    given = [word for path in inputs for word in ("--input", str(path))]
    assert main(["verify", str(model), *given, "--metrics", "--json"]) == code
    return json.loads(capsys.readouterr().out)["agreement"]  # type: ignore[no-any-return]


def test_boxes_of_a_right_detector_match(squares: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agreement = verified(capsys, 0, squares, squares.with_name("squares.png"))
    boxes = agreement["boxes"]
    assert (boxes["expected"], boxes["actual"], boxes["matched"]) == (4, 4, 4)
    assert boxes["least_iou"] > 0.999 and boxes["score_error"] < 1e-4
    assert boxes["missed"] == boxes["extra"] == []
    assert main(["verify", str(squares), "--input", str(squares.with_name("squares.png")),
                 "--metrics"]) == 0  # fmt: skip
    assert "boxes: 4 of 4 matched (4 on the device), IoU 1.0000" in capsys.readouterr().out


def test_boxes_that_are_a_little_large(
    squares: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, lambda array: array + np.float32(0.1), "heads")
    boxes = verified(capsys, 1, squares, squares.with_name("squares.png"))["boxes"]
    assert boxes["expected"] == 4
    assert boxes["least_iou"] <= boxes["mean_iou"] < 0.95


def test_boxes_that_are_missed_over_data(
    squares: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = squares.with_name("pictures")
    pictures.mkdir()
    for name in ("a.png", "b.png"):
        shutil.copy(squares.with_name("squares.png"), pictures / name)
    right = verified(capsys, 0, squares, pictures)
    assert (right["records"], right["boxes"], right["matched"], right["extra"]) == (2, 8, 8, 0)
    assert right["mean_iou"] > 0.999 and right["differing"] == []
    plant(monkeypatch, lambda array: array + np.float32(1.0), "heads")
    wrong = verified(capsys, 1, squares, pictures)
    assert wrong["boxes"] == 8 and wrong["matched"] < 8
    assert [Path(name).name for name in wrong["differing"]] == ["a.png", "b.png"]


@pytest.mark.slow
def test_faces(
    shared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real detector, by the recipe that is built in."""
    model, face = shared / "models/ncnn/RFB-320.param", shared / "images/face.jpg"
    right = verified(capsys, 0, model, face)["boxes"]
    assert right["matched"] == right["expected"] == right["actual"] > 0
    assert right["least_iou"] > 0.999
    plant(monkeypatch, lambda array: array * np.float32(1.5), *RFB_BOXES)
    wrong = verified(capsys, 1, model, face)["boxes"]
    assert wrong["expected"] == right["expected"]
    assert wrong["mean_iou"] < 0.95 * right["mean_iou"]
