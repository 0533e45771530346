"""A run of another engine, seen from vknn's process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vknn.crosscheck.engines.kinds import ENGINES, check_engine
from vknn.crosscheck.kept_inputs import without_objects, write_npz
from vknn.crosscheck.npz_files import load_npz
from vknn.errors import VknnError
from vknn.formats import Model
from vknn.named_files import temporary_folder
from vknn.printable import one_line
from vknn.run_limits import checked_seconds

#: Seconds that an engine may take by default, with loading of the model.
TIMEOUT = 300.0
_START = "from vknn.crosscheck.engines.worker import main; main()"
#: Characters that are shown of what an engine wrote last.
_LONGEST = 300


@dataclass(frozen=True, eq=False)
class EngineRun:
    """Result of an engine: its name with its version, and tensors by its names for them."""

    title: str
    tensors: dict[str, np.ndarray]


def run_engine(
    name: str,
    model: Model,
    feeds: Mapping[str, np.ndarray],
    *,
    weights: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
) -> EngineRun:
    """Tensors that another engine computes, in a process of its own.

    Args:
        name: One of ``ENGINES``.
        model: The model, as it was read from its file.
        feeds: Arrays of all inputs.
        weights: The weights file, where it does not lie beside the model.
        timeout: Seconds that the engine may take.

    Raises:
        vknn.VknnError: The engine is not installed, does not run such models or not here, refused
            the model, crashed, or was not done in time.
    """
    kind = ENGINES[name]
    file, seconds = check_engine(kind, model), checked_seconds(timeout)
    with temporary_folder() as place:
        folder = Path(place)
        with open(folder / "inputs.npz", "wb") as inputs:
            write_npz(inputs, {n: without_objects(n, np.asarray(a)) for n, a in feeds.items()})
        request = {
            "engine": name,
            "model": os.path.abspath(file),
            "weights": None if weights is None else os.path.abspath(weights),
            "folder": place,
        }
        answer = _answer(name, file, request, seconds, folder)
        if "failed" in answer:
            raise VknnError(f"{file}: {name}: {answer['failed']}")
        return EngineRun(str(answer["title"]), load_npz(folder / "outputs.npz"))


def _answer(
    name: str, file: str, request: dict[str, Any], seconds: float, folder: Path
) -> dict[str, Any]:
    """The answer of the process; raises VknnError where there is none."""
    # The parent's own path, so that the process imports the same packages.
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    errors = folder / "errors.txt"
    with open(errors, "wb") as stream:
        try:
            done = subprocess.run(
                [sys.executable, "-c", _START, json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise VknnError(
                f"{file}: {name} was not done within {seconds:g} s; give it a longer timeout"
            ) from None
    answer = folder / "answer.json"
    if done.returncode == 0 and answer.is_file():
        return dict(json.loads(answer.read_text(encoding="utf-8")))
    raise VknnError(f"{file}: {name} {_end(done.returncode)}{_last(errors)}")


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _last(errors: Path) -> str:
    """The last line that the process wrote."""
    lines = errors.read_bytes()[-(1 << 16) :].decode(errors="replace").strip().splitlines()
    return f": {one_line(lines[-1])[:_LONGEST]}" if lines else ""
