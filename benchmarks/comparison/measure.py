"""Processes that measure: started, and their findings gathered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vknn.errors import VknnError

from . import memory
from .networks import Prepared
from .results import EMPTY, NCNN, VKNN, WARM, Kernel, Network

Say = Callable[[str], None]

#: Where vknn and the drivers keep what they compiled.
CACHES = ("VKNN_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH")
PATIENCE = 3600.0


class Failed(VknnError):
    """A process that measures did not end well."""


@dataclass(frozen=True)
class Settings:
    """``budget``: seconds of steady runs a network, after which three rounds are enough; ``pause``:
    seconds before each run; ``cold``: first answers with each state of the caches."""

    device: str = "auto"
    runs: int = 10
    cold: int = 3
    budget: float = 120.0
    pause: float = 0.02
    cpu: bool = True


class Workplace:
    """A folder for all that is made, among it the memory layer. ``limits`` has the device."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        place = folder / "layer"
        place.mkdir()
        self.layer = memory.build_layer(place)
        self.limits: dict[str, Any] = {}

    def run(
        self, kind: str, job: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer of a process of its own; raises Failed with its last words."""
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        full = {**job, "kind": kind, "result": str(result), "device": self.settings.device}
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path}
        variables.pop("VKNN_VALIDATE", None)
        # Bytecode is compiled beforehand too, as in an installed package.
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables["PYTHONPYCACHEPREFIX"] = str(self.folder / "bytecode")
        try:
            done = subprocess.run(
                [sys.executable, "-m", f"{__package__}.child", json.dumps(full)],
                env={**variables, **(environment or {})},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {PATIENCE:g} s") from None
        # An engine may fall over on its way out, with the answer written.
        if not result.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise Failed(f"exit code {done.returncode}: {lines[-1] if lines else 'no message'}")
        return dict(json.loads(result.read_text()))


def measure_network(place: Workplace, prepared: Prepared, cold: bool, say: Say) -> Network:
    """Measurements of a network; what fails is left out and said in ``errors``."""
    errors: list[str] = []
    settings = place.settings
    files = asdict(prepared)
    keep = {"runs": settings.runs, "budget": settings.budget, "pause": settings.pause}

    def attempt(what: str, do: Callable[[], Any]) -> Any:
        say(what)
        try:
            return do()
        except Failed as error:
            errors.append(f"{what}: {error}")
            return None

    job = {**files, **keep, "cpu": settings.cpu}
    steady = attempt("steady", partial(place.run, "steady", job)) or {}
    used = {}
    for engine in (VKNN, NCNN):
        used[engine] = attempt(f"memory of {engine}", partial(_memory, place, files, engine))
    starts: dict[str, dict[str, list[float]]] = {}
    if cold:
        starts = {EMPTY: {VKNN: [], NCNN: []}, WARM: {VKNN: [], NCNN: []}}
        for number in range(settings.cold):
            for engine in (VKNN, NCNN):
                what = f"cold start {number + 1} of {engine}"
                attempt(what, partial(_cold, place, files, engine, starts))
    return Network(
        name=prepared.name,
        runs=steady.get("runs", {}),
        difference=steady.get("difference"),
        cold=starts,
        memory={e: m["device"] for e, m in used.items() if m and m["device"] is not None},
        rss={e: m["rss"] for e, m in used.items() if m},
        kernels=kernels(steady.get("kernels", []), place.limits),
        errors=[*steady.get("errors", []), *errors],
    )


def kernels(found: Sequence[Mapping[str, Any]], limits: Mapping[str, Any]) -> list[Kernel]:
    """The kernels, the longest first. A dispatch's least time is that of its arithmetic at the
    peak, or of its bytes at the peak of a shader's copy, whichever is longer."""
    total = sum(k["seconds"] for k in found) or 1.0
    made = [
        Kernel(
            name=k["name"],
            dispatches=len(k["work"]),
            seconds=k["seconds"],
            share=k["seconds"] / total,
            flops=sum(flops for flops, _ in k["work"]),
            nbytes=sum(nbytes for _, nbytes in k["work"]),
            ideal=sum(least_seconds(flops, nbytes, limits) for flops, nbytes in k["work"]),
        )
        for k in found
    ]
    return sorted(made, key=lambda k: -k.seconds)


def least_seconds(flops: int, nbytes: int, limits: Mapping[str, Any]) -> float:
    """0 where the limits are unknown."""
    arithmetic, copy = limits.get("gflops", 0.0), limits.get("shader_gbytes", 0.0)
    return max(
        flops / arithmetic / 1e9 if arithmetic else 0.0, nbytes / copy / 1e9 if copy else 0.0
    )


def _memory(place: Workplace, files: Mapping[str, Any], engine: str) -> dict[str, int | None]:
    log = place.folder / "memory.log"
    log.unlink(missing_ok=True)
    environment = memory.layer_environment(place.layer, log) if place.layer else {}
    answer = place.run("first", _first_job(place, files, engine, again=2), environment)
    return {"device": memory.peak(log), "rss": answer["rss"]}


def _cold(
    place: Workplace,
    files: Mapping[str, Any],
    engine: str,
    starts: Mapping[str, Mapping[str, list[float]]],
) -> None:
    """The first start with nothing compiled, and the second."""
    folder = Path(tempfile.mkdtemp(dir=place.folder))
    try:
        caches = dict.fromkeys(CACHES, str(folder))
        for state in (EMPTY, WARM):
            answer = place.run("first", _first_job(place, files, engine, again=0), caches)
            starts[state][engine].append(answer["seconds"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_job(
    place: Workplace, files: Mapping[str, Any], engine: str, again: int
) -> dict[str, Any]:
    return {**files, "engine": engine, "again": again, "name": place.limits.get("device", "")}
