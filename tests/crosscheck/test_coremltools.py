"""Core ML on a Mac as another engine, by a stand-in: names, layouts, faults and errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vknn.cli import main
from vknn.crosscheck import against
from vknn.crosscheck.engines import kinds, mac_run
from vknn.errors import VknnError

pytest.importorskip("PIL.Image")
FAKES = Path(__file__).with_name("fakes")


@pytest.fixture(autouse=True)
def _mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """What vknn takes for a Mac with coremltools."""
    monkeypatch.setattr(kinds, "platform", SimpleNamespace(system=lambda: "Darwin"))
    monkeypatch.syspath_prepend(str(FAKES))


@pytest.fixture
def model(shared: Path) -> Callable[[str], Path]:
    return lambda name: shared / "models" / "coreml" / f"{name}.mlmodel"


def test_the_scores_of_a_classifier(model: Callable[[str], Path]) -> None:
    """A gray picture goes in; the probabilities come by labels, in another order."""
    report = against(model("mnistCNN"), "coremltools", device="numpy")
    assert report.ok and report.engine == "coremltools 9.0"
    (row,) = report.rows
    assert (row.recorded, row.how) == ("output", "name")
    assert row.other_numpy.max_abs < 1e-6
    assert report.unmatched == () and report.outputs_left == ("classLabel",)


def test_an_engine_that_is_wrong(
    model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a classifier whose labels are numbers."""
    monkeypatch.setenv("FAKE_COREML", "wrong")
    argv = ["compare", str(model("UpdatableMNIST")), "--against", "coremltools"]
    assert main([*argv, "--device", "numpy", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(row["recorded"], row["alone"]) for row in found["rows"]] == [("prediction", "record")]
    assert found["engine"] == "coremltools 9.0" and not found["unmatched"]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("refuses", r"mnistCNN.mlmodel: coremltools: RuntimeError: Error compiling model: it is"),
        pytest.param("fails", "coremltools: RuntimeError: Unable to", marks=pytest.mark.slow),
    ],
)
def test_what_it_refuses(
    fault: str, text: str, model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_COREML", fault)
    with pytest.raises(VknnError, match=text):
        against(model("mnistCNN"), "coremltools", device="numpy")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("BlazeFaceScaled", ["1477", "1011"]),  # a picture in colours
        ("TinyDrawingEmbedding", ["embedding"]),
        ("house_trainable_updatable", ["output"]),  # three arrays go in
        ("pose_hourglass", ["hourglass_out_3__0"]),
    ],
)
def test_real_models(name: str, outputs: list[str], model: Callable[[str], Path]) -> None:
    report = against(model(name), "coremltools", device="numpy")
    assert report.ok and not report.unmatched and not report.outputs_left
    assert sorted(row.recorded for row in report.rows) == sorted(outputs)


def run(path: Path, monkeypatch: pytest.MonkeyPatch, **feeds: Any) -> dict[str, np.ndarray]:
    """What the process of the engine is to give, in this one."""
    from tests.crosscheck.fakes import coremltools

    monkeypatch.setitem(sys.modules, "coremltools", coremltools)
    arrays = {name: np.asarray(value) for name, value in feeds.items()}
    return mac_run.run(str(path), None, arrays)[1]


def test_pictures(model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = model("mnistCNN")
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28))
    scores = run(path, monkeypatch, image=pixels)["output"]
    assert scores.shape == (10,) and scores.sum() == pytest.approx(1, abs=1e-5)
    # The axis of its channel that a gray picture may have, and floats that are whole.
    again = run(path, monkeypatch, image=pixels[..., None].astype(np.float32))
    np.testing.assert_array_equal(again["output"], scores)
    for wrong in (pixels + 0.5, pixels + 256, np.full((28, 28), np.nan)):
        with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
            run(path, monkeypatch, image=wrong)


def test_arrays_of_other_types(
    model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes float32, float64 and int32 only."""
    feeds = {"categoricalInput1": [1.0], "categoricalInput2": [2.0], "numericalInput": [1.0] * 11}
    path = model("house_trainable_updatable")
    right = run(path, monkeypatch, **feeds)["output"]
    halves = {name: np.float16(value) for name, value in feeds.items()}
    np.testing.assert_array_equal(run(path, monkeypatch, **halves)["output"], right)


def test_single_numbers(model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Go in and come out as numbers of Python; what is no number is left out."""
    given: dict[str, Any] = {}

    class Model:
        def __init__(self, *_: object, **options: object) -> None:
            kinds = {"size": "doubleType", "rooms": "int64Type"}
            inputs = [
                SimpleNamespace(name=n, type=SimpleNamespace(WhichOneof=lambda _, k=kind: k))
                for n, kind in kinds.items()
            ]
            self.spec = SimpleNamespace(description=SimpleNamespace(input=inputs))

        def get_spec(self) -> object:
            return self.spec

        def predict(self, data: dict[str, Any]) -> dict[str, Any]:
            given.update(data)
            return {"price": 2.5, "floors": 2, "street": "long", "garden": None}

    fake = SimpleNamespace(
        __version__="9.0",
        models=SimpleNamespace(MLModel=Model),
        ComputeUnit=SimpleNamespace(CPU_ONLY=1),
    )
    monkeypatch.setitem(sys.modules, "coremltools", fake)
    path = model("house_trainable_updatable")
    _, found = mac_run.run(str(path), None, {"size": np.float32([70.5]), "rooms": np.array([3])})
    assert given == {"size": 70.5, "rooms": 3} and type(given["rooms"]) is int
    assert {name: array.item() for name, array in found.items()} == {"price": 2.5, "floors": 2}


def test_the_script_that_records_on_a_mac(
    model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/verification.md has it: what it writes is compared like the engine itself."""
    from tests.crosscheck.fakes import coremltools

    page = (Path(__file__).parents[2] / "docs" / "verification.md").read_text()
    (script,) = re.findall(
        r"^```python\n# record_coreml\.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28)).astype(np.uint8)
    for name, output in (("mnistCNN", "output"), ("UpdatableMNIST", "prediction")):
        np.savez(tmp_path / "in.npz", image=pixels)
        argv = ["record_coreml.py", str(model(name)), str(tmp_path / "in.npz")]
        monkeypatch.setattr(sys, "argv", [*argv, str(tmp_path / "run.npz")])
        monkeypatch.setitem(sys.modules, "coremltools", coremltools)
        exec(script, {})
        report = against(model(name), tmp_path / "run.npz", device="numpy")
        assert report.ok and [row.recorded for row in report.rows] == [output]
