"""Labels and names that other tools show, and captures by RenderDoc where it is installed."""

from __future__ import annotations

import ctypes
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vknn
from small_model import PARAM, SHAPE, write_small_model
from vknn.cli.main import main
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.profiling import renderdoc
from vknn.runtime.vulkan import instance, labels

pytestmark = pytest.mark.device

#: A layer's name as no file should have it, as long as ncnn's may be.
HOSTILE = "</string>\N{GRINNING FACE}\"'&\u2028".ljust(250, "x")


class _Recording(labels.DebugLabels):
    """Labels that are noted in place of given to the driver."""

    noted: list[tuple[str, str]]

    def begin(self, target: Any, text: str) -> None:
        self.noted.append(("begin", text))
        super().begin(target, text)

    def end(self, target: Any) -> None:
        self.noted.append(("end", ""))
        super().end(target)

    def name(self, kind: str, handle: Any, text: str) -> None:
        self.noted.append((kind, text))
        super().name(kind, handle, text)


@pytest.fixture(autouse=True)
def _own_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance of the test's own: other tests of the process keep a device open."""
    monkeypatch.setattr(instance, "_current", None)
    monkeypatch.setattr(instance, "_users", 0)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(_Recording, "noted", found, raising=False)
    monkeypatch.setattr("vknn.runtime.vulkan.core.DebugLabels", _Recording)
    return found


def _run(model: Path) -> np.ndarray:
    with vknn.Session(model, device="vulkan") as session:
        return np.asarray(session.run({"data": np.ones(SHAPE, np.float32)})["out"])


def test_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: list[tuple[str, str]]
) -> None:
    """Layers are labels within that of the plan; pipelines and buffers have names."""
    model = write_small_model(tmp_path)
    plain = _run(model)
    assert noted == []
    monkeypatch.setenv("VKNN_DEBUG", "1")
    np.testing.assert_array_equal(_run(model), plain)
    begun = [text for what, text in noted if what == "begin"]
    assert "conv1" in "\n".join(begun)
    assert any(re.search(r"\bfc\b", text) for text in begun)
    depth = 0
    for what, _ in noted:
        depth += {"begin": 1, "end": -1}.get(what, 0)
        assert depth in (0, 1, 2)  # a layer within its plan
    assert depth == 0
    names = {
        kind: {text for what, text in noted if what == kind} for kind in ("pipeline", "buffer")
    }
    assert any("/" in text for text in names["pipeline"])
    assert any(text.endswith(": input") for text in names["buffer"])


def test_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cut, and hold no line ends; the validation layer has nothing to say."""
    path = tmp_path / "hostile.param"
    path.write_text(PARAM.replace("conv1  1 1", f"{HOSTILE}  1 1"))
    write_random_weights(path, path.with_suffix(".bin"))
    monkeypatch.setenv("VKNN_DEBUG", "1")
    assert np.isfinite(_run(path)).all()
    text = labels._bounded("\n\0" + HOSTILE + 10_000 * "x")
    assert len(text) == labels.MOST_CHARACTERS
    assert text.isprintable()


@pytest.mark.skipif(
    shutil.which("renderdoccmd") is None, reason="needs RenderDoc (apt-get install renderdoc)"
)
@pytest.mark.timeout(120)
def test_a_capture(tmp_path: Path) -> None:
    """RenderDoc's file has a label for each layer that a dispatch computes."""
    model = write_small_model(tmp_path)
    command = [sys.executable, "-m", "vknn", "profile", str(model), "--device", "vulkan"]
    command += ["--capture", "renderdoc", "--capture-file", str(tmp_path / "seen")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("seen*.rdc")
    assert done.stdout == f"written: {file}\n"
    text = tmp_path / "seen.xml"
    convert = ["renderdoccmd", "convert", "-f", str(file), "-c", "xml", "-o", str(text)]
    subprocess.run(convert, check=True, capture_output=True)
    document = html.unescape(text.read_text(errors="replace"))
    found = re.findall(r'name="pLabelName"[^>]*>([^<]*)<', document)
    assert found[0] == "small"
    assert {"conv1", "fc", "prob"} <= {
        word for label in found for word in re.split(r"[ ,]+", label)
    }
    assert document.count('name="vkCmdDispatch"') >= 3


def test_a_session_that_is_open(tmp_path: Path) -> None:
    with (
        vknn.Session(write_small_model(tmp_path), device="vulkan"),
        pytest.raises(vknn.VknnError, match="close all sessions first"),
        renderdoc.renderdoc_capture(tmp_path / "seen"),
    ):
        pass


def test_no_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(vknn.VknnError, match="is no folder"),
        renderdoc.renderdoc_capture(tmp_path / "missing" / "seen"),
    ):
        pass


def test_no_renderdoc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderdoc, "_LIBRARIES", (str(tmp_path / "librenderdoc.so"),))
    with (
        pytest.raises(vknn.VknnError, match="cannot be loaded.*install RenderDoc"),
        renderdoc.renderdoc_capture(tmp_path / "seen"),
    ):
        pass
    assert not labels.wanted()
    assert renderdoc.LAYER_SWITCH not in os.environ


def test_a_capture_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's table of functions, with the two numbers that say that nothing came."""
    made = [ctypes.CFUNCTYPE(ctypes.c_uint32)(lambda: 0) for _ in range(30)]
    table = (ctypes.c_void_p * 30)(*(ctypes.cast(f, ctypes.c_void_p) for f in made))

    class Library:
        @staticmethod
        def RENDERDOC_GetAPI(version: int, out: Any) -> int:
            assert version == renderdoc._VERSION
            ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.addressof(table)
            return 1

    monkeypatch.setattr(renderdoc, "_library", Library)
    with (
        pytest.raises(vknn.VknnError, match="captured nothing"),
        renderdoc.renderdoc_capture(tmp_path / "seen") as capture,
        capture.frame(),
    ):
        pass


class _Fake:
    """RenderDoc's library as far as vknn asks it; a capture is a file with the comment in it."""

    def __init__(self) -> None:
        self.path, self.began = b"", 0
        self.files: list[bytes] = []
        text, pointer = ctypes.c_char_p, ctypes.c_void_p
        number = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint64)
        uint32 = ctypes.c_uint32
        self._functions = {
            renderdoc._SET_PATH: ctypes.CFUNCTYPE(None, text)(self._set_path),
            renderdoc._COUNT: ctypes.CFUNCTYPE(uint32)(lambda: len(self.files)),
            renderdoc._GET: ctypes.CFUNCTYPE(uint32, uint32, pointer, *number)(self._get),
            renderdoc._START: ctypes.CFUNCTYPE(None, pointer, pointer)(self._start),
            renderdoc._END: ctypes.CFUNCTYPE(uint32, pointer, pointer)(self._end),
            renderdoc._COMMENTS: ctypes.CFUNCTYPE(None, text, text)(self._comment),
        }
        self._table = (ctypes.c_void_p * 30)()
        for place, function in self._functions.items():
            self._table[place] = ctypes.cast(function, ctypes.c_void_p).value

    def RENDERDOC_GetAPI(self, version: int, out: Any) -> int:
        ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.addressof(self._table)
        return 1

    def _set_path(self, path: bytes) -> None:
        self.path = path

    def _start(self, device: int, window: int) -> None:
        self.began += 1

    def _end(self, device: int, window: int) -> int:
        self.files.append(self.path + b"_capture.rdc")
        return 1

    def _get(self, number: int, name: int | None, length: Any, when: Any) -> int:
        if name:
            ctypes.memmove(name, self.files[number] + b"\0", len(self.files[number]) + 1)
        length[0] = len(self.files[number]) + 1
        return 1

    def _comment(self, file: bytes, text: bytes) -> None:
        Path(os.fsdecode(file)).write_bytes(text)


def test_a_capture_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run, behind one that compiles; the file is named, and says what made it."""
    fake, model = _Fake(), write_small_model(tmp_path)
    monkeypatch.setattr(renderdoc, "_library", lambda: fake)
    given = ["profile", str(model), "--device", "vulkan", "--capture", "renderdoc", "--json"]
    assert main([*given, "--capture-file", str(tmp_path / "seen")]) == 0
    file = tmp_path / "seen_capture.rdc"
    assert json.loads(capsys.readouterr().out) == {"captures": [str(file)]}
    assert fake.began == 1
    assert file.read_text() == f"vknn {vknn.__version__}: {model}"
    assert main([*given, "--device", "numpy"]) == 2
    assert "NumPy computes, not a device" in capsys.readouterr().err


def test_capture_file_alone(tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    command = [sys.executable, "-m", "vknn", "profile", str(model), "--capture-file", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--capture-file needs --capture" in done.stderr
