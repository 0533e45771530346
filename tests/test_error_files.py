"""Errors name the model's file: of sessions, runs and commands, in every format."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.endurance_run import SHAPE, array, write_models
from tests.helpers import shared_device

import vknn
from vknn.cli import main
from vknn.crosscheck import verify
from vknn.profiling import profile

FORMATS = ("ncnn", "tflite", "coreml", "openvino", "onnx")
DEVICES = ("numpy", pytest.param("vulkan", marks=pytest.mark.device))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return dict(zip(FORMATS, write_models(tmp_path_factory.mktemp("models")), strict=True))


@pytest.fixture(params=FORMATS)
def model(request: pytest.FixtureRequest, models: dict[str, Path]) -> Path:
    return models[request.param]


def refused(path: Path, action: Callable[[], object]) -> None:
    """Asserts an error that names the file, once."""
    with pytest.raises(vknn.VknnError) as caught:
        action()
    assert str(caught.value).count(str(path)) == 1, str(caught.value)
    assert caught.value.file == str(path)


def returned(path: Path, answers: list[Any]) -> None:
    """Asserts that the one answer is an error that names the file, once."""

    def fail() -> None:
        (answer,) = answers
        raise answer

    refused(path, fail)


OPTIONS = {
    "a device": {"device": "no such device"},
    "no device": {"device": 5},
    "precision": {"precision": "fp8"},
    "arithmetic": {"arithmetic": "fp16"},
    "a part": {"disable": "no such part"},
    "memory": {"memory_limit": "much"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(options: dict[str, Any], model: Path) -> None:
    refused(model, lambda: vknn.Session(model, **{"device": "numpy", **options}))


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.8])
def test_damaged_files(kept: float, model: Path, tmp_path: Path) -> None:
    data, path = model.read_bytes(), tmp_path / model.name
    path.write_bytes(data[: int(len(data) * kept)])
    refused(path, lambda: vknn.Session(path, device="numpy"))


def test_what_is_no_file(model: Path, tmp_path: Path) -> None:
    refused(tmp_path / model.name, lambda: vknn.Session(tmp_path / model.name, device="numpy"))
    folder = tmp_path / f"folder{model.suffix}"
    folder.mkdir()
    refused(folder, lambda: vknn.Session(folder, device="numpy"))


class _NoMemory:
    def __dlpack__(self, **_: object) -> object:
        raise BufferError("elsewhere")


FEEDS = {
    "nothing": {},
    "another name": {"z": array()},
    "one name more": {"x": array(), "z": array()},
    "too few axes": {"x": np.float32(3)},
    "too many axes": {"x": np.zeros((2, 3, *SHAPE), np.float32)},
    "complex": {"x": array().astype(np.complex64)},
    "text": {"x": np.full(SHAPE, "text")},
    "bytes": {"x": np.full(SHAPE, b"text")},
    "objects": {"x": np.full(SHAPE, None)},
    "dates": {"x": np.zeros(SHAPE, "datetime64[s]")},
    "no array": {"x": [[1.0], [1.0, 2.0]]},
    "no memory": {"x": _NoMemory()},
    "nothing at all": None,
    "a number": 5,
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("feeds", FEEDS.values(), ids=FEEDS)
def test_inputs(feeds: Any, device: str, model: Path) -> None:
    place = device if device == "numpy" else shared_device()
    with vknn.Session(model, device=place) as session:
        refused(model, lambda: session.run(feeds))
        refused(model, lambda: list(session.stream([feeds], errors="raise")))
        returned(model, list(session.stream([feeds])))
        session.run({"x": array()})
        refused(model, lambda: session.run(feeds))
        if isinstance(feeds, dict) and "no memory" not in feeds and feeds:
            refused(model, lambda: verify(session, feeds | {"z": array()}))
            if set(feeds) == {"x"}:
                refused(model, lambda: profile(session, feeds))


@pytest.mark.parametrize("device", DEVICES)
def test_runs(device: str, model: Path, tmp_path: Path) -> None:
    place = device if device == "numpy" else shared_device()
    session, good = vknn.Session(model, device=place), {"x": array()}
    refused(model, lambda: session.placement)
    for outputs in (["nowhere"], [5], 5):
        refused(model, lambda outputs=outputs: session.run(good, outputs))
    refused(model, lambda: session.run(good, on_device=["nowhere"]))
    refused(model, lambda: list(session.stream([good], on_device=["nowhere"])))
    refused(model, lambda: list(session.stream([good], in_flight=0)))
    refused(model, lambda: session.run_many([good], errors="ignore"))  # type: ignore[call-overload]
    for seconds in (-1, float("nan"), "soon"):
        refused(model, lambda seconds=seconds: session.run(good, timeout=seconds))
        refused(model, lambda seconds=seconds: list(session.stream([good], timeout=seconds)))
    refused(model, lambda: session.run(good, timeout=1e-9))
    refused(model, lambda: list(session.stream([good], timeout=1e-9)))
    refused(model, lambda: list(session.stream(good)))
    refused(model, lambda: session.run_many(good))
    refused(model, lambda: session.update([good]))
    if model.suffix != ".mlmodel":
        refused(model, lambda: session.save(tmp_path / "saved"))
    refused(model, lambda: copy.copy(session))
    refused(model, lambda: copy.deepcopy(session))
    if device != "numpy":
        refused(model, lambda: pickle.dumps(session))
    refused(model, lambda: verify(session, shapes={"z": (3,)}))
    session.close()
    refused(model, lambda: session.run(good))
    refused(model, lambda: list(session.stream([good])))


@pytest.mark.parametrize("device", DEVICES)
def test_memory(device: str, model: Path) -> None:
    place = device if device == "numpy" else shared_device()
    with vknn.Session(model, device=place, memory_limit=100) as session:
        refused(model, lambda: session.run({"x": array()}))


def test_inputs_beyond_memory(model: Path) -> None:
    """Four exbibytes, of which one element is in memory: no bare MemoryError of NumPy's."""
    huge = np.broadcast_to(np.float64(1), (*SHAPE[:2], 1 << 55))
    with vknn.Session(model, device="numpy") as session:
        refused(model, lambda: session.run({"x": huge}))
        refused(model, lambda: list(session.stream([{"x": huge}], errors="raise")))
        returned(model, session.run_many([{"x": huge}]))


COMMANDS = {
    "run without": ["run"],
    "another name": ["run", "--input", "z={array}"],
    "two files": ["run", "--input", "x={array}", "--input", "x={array}"],
    "another array": ["run", "--input", "x={other}"],
    "verify": ["verify", "--shape", "z=3"],
    "shape": ["verify", "--shape", "x=huge"],
    "shapes": ["verify", "--shape", "x=3", "--shape", "x=4"],
    "device": ["verify", "--device", "no such device"],
    "part": ["info", "--disable", "no such part"],
    "random weights": ["info", "--random-weights", "--shape", "huge"],
    "profile": ["profile", "--runs", "0"],
    "bench": ["bench", "--runs", "0"],
    "draw": ["run", "--input", "x={array}", "--draw", "out.png", "--recipe", "none"],
    "static": ["profile", "--static", "--device", "numpy"],
    "plan": ["info", "--plan", "--device", "numpy"],
    "tune": ["tune", "--device", "numpy"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands(
    command: list[str],
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VKNN_DEVICE", "numpy")
    np.save(tmp_path / "array.npy", array())
    np.save(tmp_path / "other.npy", np.full(SHAPE, "text"))
    places = {"array": tmp_path / "array.npy", "other": tmp_path / "other.npy"}
    name, *rest = (part.format(**places) for part in command)
    assert main([name, str(model), *rest]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vknn: error: "), error
    assert str(model) in error
