"""Injected faults: each native call that can fail is let fail, by a Vulkan layer (fault_layer/).

Whichever it is, once or from then on: the error is the one of its VkResult (or there is none, where
vknn can do without), nothing is left of the session, and the next one's results are right.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.counting.layer import Layer, Unbuildable, built
from tests.small_model import write_small_model

pytestmark = pytest.mark.device

ROOT = Path(__file__).resolve().parents[2]
LAYER = Layer(
    "VK_LAYER_VKNN_faults", Path(__file__).with_name("fault_layer"), "lets native calls fail"
)
#: Memory path -> what is switched off for it. Threads would change the order of the calls.
PATHS = {
    "unified": "threads,precompile",
    "staged": "threads,precompile,unified",
    "copying": "threads,precompile,unified",
}
OUT_OF_MEMORY, LOST = -2, -4


@functools.cache
def layer() -> Path | str:
    """The folder of the built layer, or why there is none."""
    try:
        return built(ROOT / ".cache", LAYER)
    except Unbuildable as error:
        return str(error)


class Run:
    """A child process that runs cases on one memory path, and is started again where it crashes."""

    def __init__(self, path: str, folder: Path) -> None:
        found = layer()
        if isinstance(found, str):
            pytest.skip(f"needs the layer of faults: {found}")
        self._path, self._folder, self._layer = path, folder, found
        self._model = write_small_model(folder)
        self._child: subprocess.Popen[str] | None = None
        self.calls = self._start()

    def failures(self, cases: Sequence[tuple[int, int, bool, str]]) -> list[str]:
        """What was wrong with the cases; each has to reach a call that it lets fail."""
        found = []
        for order in cases:
            answer = self._ask(order)
            wrong = answer["wrong"] + ([] if answer["call"] else ["nothing was let fail"])
            found += [f"{order} {answer['call']}: {text}" for text in wrong]
        return found

    def stop(self) -> None:
        assert self._child is not None
        self._child.stdin.close()  # type: ignore[union-attr]
        self._child.wait(60)

    def _ask(self, order: tuple[int, int, bool, str]) -> dict[str, Any]:
        assert self._child is not None
        print(json.dumps(order), file=self._child.stdin, flush=True)
        line = self._child.stdout.readline()  # type: ignore[union-attr]
        if line:
            return json.loads(line)
        code = self._child.wait(60)
        self._start()
        return {"call": "", "wrong": [f"the process ended with {code}"]}

    def _start(self) -> int:
        environment = {
            **os.environ,
            "VK_ADD_LAYER_PATH": str(self._layer),
            "VK_INSTANCE_LAYERS": LAYER.name,
            "NODEVICE_SELECT": "1",  # Mesa's own layer, which crashes where listing devices fails
            "VKNN_DISABLE": PATHS[self._path],
            "VKNN_VALIDATE": "0",
            "VKNN_CACHE_DIR": str(self._folder / "cache"),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        script = str(Path(__file__).with_name("fault_run.py"))
        library = str(self._layer / LAYER.library)
        self._child = subprocess.Popen(
            [sys.executable, script, library, str(self._model), self._path],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        about = json.loads(self._child.stdout.readline())  # type: ignore[union-attr]
        assert about["left"] == {}
        return int(about["calls"])


@pytest.fixture(scope="module", params=PATHS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    made = Run(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.stop()


@pytest.mark.long
def test_some_faults(run: Run) -> None:
    """A few calls of each kind, among them those that once left something behind."""
    cases = [
        (1, OUT_OF_MEMORY, False, "vkCreateInstance"),
        (2, -3, False, "vkEnumeratePhysicalDevices"),
        (1, OUT_OF_MEMORY, False, "vkCreateDevice"),
        (3, OUT_OF_MEMORY, False, "vkAllocateMemory"),
        (1, OUT_OF_MEMORY, False, "vkAllocateCommandBuffers"),
        (1, OUT_OF_MEMORY, True, "vkCreateFence"),
        (1, OUT_OF_MEMORY, True, "vkWaitForFences"),
        (1, LOST, False, "vkWaitForFences"),
        (3, LOST, False, "vkWaitForFences"),
        (2, OUT_OF_MEMORY, True, "vkQueueSubmit"),
        (1, OUT_OF_MEMORY, True, "vkGetQueryPoolResults"),
        (run.calls - 30, OUT_OF_MEMORY, True, ""),
    ]
    assert run.failures(cases) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stays", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("result", [OUT_OF_MEMORY, LOST], ids=["memory", "lost"])
def test_every_fault(run: Run, result: int, stays: bool) -> None:
    """All calls, in their order."""
    cases = [(nth, result, stays, "") for nth in range(1, run.calls + 1)]
    assert run.failures(cases) == []
