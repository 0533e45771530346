"""Processes in which an engine runs networks on a null device under the layer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import null_drivers

from . import layer
from .log import LoggedRun, read_runs

BENCHMARKS = Path(__file__).resolve().parents[1]
#: Variables by which ncnn finds a driver itself and goes past the loader, and with it past layers.
PAST_THE_LOADER = ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")
SECONDS = 300


@dataclass(frozen=True)
class Engine:
    """An engine and the way it is run. ``wheel``: a folder of ``pip install --target``, for another
    version than this Python's."""

    name: str
    mode: str
    wheel: Path | None = None


@dataclass
class Workshop:
    """A null device, the layer, and a folder for all that is written."""

    device: str
    layer: Path
    folder: Path

    def counted(
        self, engine: Engine, networks: Sequence[Mapping[str, Any]], texts: Path | None = None
    ) -> tuple[dict[str, LoggedRun], dict[str, str]]:
        """The run of each network, and why others have none. What the compiler read and wrote goes
        to the folder ``texts``."""
        log = self.folder / f"{engine.name}-{engine.mode}.log"
        log.unlink(missing_ok=True)
        if texts is not None:
            texts.mkdir(parents=True, exist_ok=True)
        answers = self._run(engine, networks, log, 0, layer.environment(self.layer, log, texts))
        errors = {a["name"]: a["error"] for a in answers if "error" in a}
        return (read_runs(log) if log.exists() else {}), errors

    def timed(
        self, engine: Engine, networks: Sequence[Mapping[str, Any]], runs: int
    ) -> dict[str, list[float]]:
        """Seconds of runs without the layer, on a device that takes no time: the host's part."""
        answers = self._run(engine, networks, None, runs, {})
        return {a["name"]: a["seconds"] for a in answers if "seconds" in a}

    def _run(
        self,
        engine: Engine,
        networks: Sequence[Mapping[str, Any]],
        log: Path | None,
        runs: int,
        more: Mapping[str, str],
    ) -> list[dict[str, Any]]:
        """Answers of processes; one that falls over costs its network, and another goes on."""
        left, answers = list(networks), []
        while left:
            job = {"engine": engine.name, "mode": engine.mode, "runs": runs, "networks": left}
            job["log"] = str(log) if log else None
            found, why = self._process(engine, job, more)
            answers += found
            done = {answer["name"] for answer in found}
            rest = [network for network in left if network["name"] not in done]
            if rest:
                answers.append({"name": rest[0]["name"], "error": why})
            left = rest[1:]
        return answers

    def _process(
        self, engine: Engine, job: dict[str, Any], more: Mapping[str, str]
    ) -> tuple[list[dict[str, Any]], str]:
        program = [sys.executable, "-m", "counting.child", json.dumps(job)]
        variables = environment(self.device, self.folder, engine) | dict(more)
        seconds = SECONDS * len(job["networks"])
        try:
            done = subprocess.run(
                null_drivers.command(self.device, program),
                env=variables,
                cwd=BENCHMARKS,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
            output, why = done.stdout, ending(done)
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode(errors="replace")
            why = f"no end after {seconds} s"
        lines = output.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"], why


def ending(done: subprocess.CompletedProcess[str]) -> str:
    """The way in which a process ended, in a line: by a signal where it crashed, or by a code."""
    code = done.returncode
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    last = (done.stderr or "").strip().splitlines()[-1:] or ["no message"]
    return f"{how}: {last[0]}"


def environment(device: str, folder: Path, engine: Engine) -> dict[str, str]:
    """Variables that make ``device`` the only one of the loader, without those that ncnn reads.

    The driver's manifest lies in a folder where the loader looks by itself, and a pattern leaves
    only that one.
    """
    found = {**os.environ, **null_drivers.device_environment(device), "VKNN_NULL_DEVICE": "1"}
    manifest = Path(found["VK_DRIVER_FILES"])
    for name in (*PAST_THE_LOADER, "VKNN_VALIDATE", "VK_INSTANCE_LAYERS"):
        found.pop(name, None)
    place = folder / "data" / "vulkan" / "icd.d"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(manifest, place / f"null_{manifest.name}")
    found["XDG_DATA_HOME"] = str(folder / "data")
    found["VK_LOADER_DRIVERS_SELECT"] = f"null_{manifest.stem}*"
    wheels = [str(engine.wheel)] if engine.wheel else []
    paths = [*wheels, str(BENCHMARKS), str(BENCHMARKS.parent / "tools"), *sys.path]
    found["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in paths)
    return found
