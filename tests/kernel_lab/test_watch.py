"""Watching: each save gives numbers, or the compiler's line, and none ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import shared_device
from tests.kernel_lab.labs import STORE, WINDOW, change, edit, lab_folder
from tests.signals import heard

from vknn.kernel_lab import Lab, Watched, watch

pytestmark = pytest.mark.device


#: Seconds from a save to its numbers on llvmpipe; CI, on machines that others load, has twice that.
MOST_SECONDS = 1.5 * (2 if os.environ.get("CI") else 1)
#: The beginning of a function of shaders/common/tensor.glsl.
LANES = "VEC4 zero_padding_lanes(VEC4 v, int channel4, int channels) {"


def watched(lab: Lab) -> Iterator[Watched]:
    end = time.monotonic() + 60
    device = f"vulkan:{shared_device().snapshot.index}"
    return watch(lab, device, runs=3, ended=lambda: time.monotonic() > end)


def test_saves(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    file = folder / WINDOW
    text = file.read_text()
    with Lab.open(folder) as lab:
        versions = watched(lab)
        first = next(versions)
        assert first.run is not None and first.run.ok and first.run.ratio is None
        edit(file, STORE, f"if (c == 1) v.y += 1.0; {STORE}")
        wrong = next(versions)
        assert wrong.run is not None
        assert "all in channel 5" in wrong.line()
        if "timestamps" in shared_device().limits.features:
            assert wrong.run.ratio is not None
            assert "of the first" in wrong.line()
        half = text[: text.index(STORE) + 5]
        file.write_text(half)
        broken = next(versions)
        assert broken.run is None
        assert f"pooling/window.comp:{half.count(chr(10)) + 1}: error" in broken.error
        file.write_text("")
        assert "has no #version line" in next(versions).error
        file.unlink()
        assert "No such file" in next(versions).error
        file.write_text(text)
        again = next(versions)
        assert again.run is not None and again.run.ok
        assert again.number == 6


def test_an_include_and_the_description_are_watched(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    include = folder / "glsl/common/tensor.glsl"
    with Lab.open(folder) as lab:
        versions = watched(lab)
        assert next(versions).error == ""
        edit(include, LANES, f"{LANES} v *= SCALAR(2);")
        assert (run := next(versions).run) is not None and not run.ok
        edit(include, f"{LANES} v *= SCALAR(2);", LANES)
        assert (run := next(versions).run) is not None and run.ok
        (folder / "lab.json").write_text((folder / "lab.json").read_text() + "}")
        assert "this is no JSON" in next(versions).error
        text = (folder / "lab.json").read_text()
        (folder / "lab.json").write_text(text[:-1])
        assert next(versions).error == ""
        change(folder, lambda lab: lab.update(groups=[1 << 30, 1, 1]))
        assert "workgroups along x" in next(versions).error


@contextmanager
def watching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """``vknn kernel run --watch --json`` on a folder, ended by an interrupt, which is no error."""
    command = [sys.executable, "-m", "vknn", "kernel", "run", str(folder), "--watch", "--json"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "VKNN_VALIDATE": "0"},
        preexec_fn=heard,
    ) as child:
        try:
            yield child
        finally:
            child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0


def next_line(child: subprocess.Popen[str]) -> dict[str, Any]:
    assert child.stdout is not None
    return json.loads(child.stdout.readline())  # type: ignore[no-any-return]


def test_the_command_ends_by_ctrl_c(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    with watching(folder) as child:
        assert next_line(child)["run"]["ok"] is True
        edit(folder / WINDOW, STORE, f"v *= 2.0; {STORE}")
        assert next_line(child)["run"]["ok"] is False


def test_numbers_come_soon_after_a_save(tmp_path: Path) -> None:
    """From the write of the file, before the watch sees it, to the line: the best of three."""
    folder = lab_folder(tmp_path)
    text, taken = (folder / WINDOW).read_text(), []
    with watching(folder) as child:
        assert next_line(child)["run"]["ok"] is True
        for factor in (2, 3, 4):  # each is compiled anew
            written = time.monotonic()
            (folder / WINDOW).write_text(text.replace(STORE, f"v *= {factor}.0; {STORE}"))
            seen = next_line(child)
            taken.append(time.monotonic() - written)
            assert seen["run"]["ok"] is False and 0 < seen["seconds"] <= taken[-1]
    assert min(taken) < MOST_SECONDS, taken
