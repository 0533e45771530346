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
from tests.runtime.fault_programs import PROGRAMS

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
#: Which call fails (from 1), its VkResult, whether all later ones do, only calls of this function.
Case = tuple[int, int, bool, str]
ONCE, FROM_THEN_ON = False, True


@functools.cache
def layer() -> Path | str:
    """The folder of the built layer, or why there is none."""
    try:
        return built(ROOT / ".cache", LAYER)
    except Unbuildable as error:
        return str(error)


class Run:
    """A child process that runs cases of a program on one memory path.

    It is started again where it crashes.
    """

    def __init__(self, path: str, program: str, folder: Path) -> None:
        found = layer()
        if isinstance(found, str):
            pytest.skip(f"needs the layer of faults: {found}")
        self._path, self.program, self._folder, self._layer = path, program, folder, found
        self._child: subprocess.Popen[str] | None = None
        self.calls, self.allocations = self._start()

    def failures(self, cases: Sequence[Case]) -> list[str]:
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

    def _ask(self, order: Case) -> dict[str, Any]:
        assert self._child is not None
        print(json.dumps(order), file=self._child.stdin, flush=True)
        line = self._child.stdout.readline()  # type: ignore[union-attr]
        if line:
            return json.loads(line)
        code = self._child.wait(60)
        self._start()
        return {"call": "", "wrong": [f"the process ended with {code}"]}

    def _start(self) -> tuple[int, int]:
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
            [sys.executable, script, library, str(self._folder), self._path, self.program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        about = json.loads(self._child.stdout.readline())  # type: ignore[union-attr]
        assert about["left"] == {}
        return int(about["calls"]), int(about["allocations"])


#: The others copy nothing beside a run: their calls are those without a queue for copies.
COPYING = ("session", "tensors")
EACH = [(made, path) for made in PROGRAMS for path in PATHS if path != "copying" or made in COPYING]


@pytest.fixture(scope="module", params=EACH, ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    program, path = request.param
    made = Run(path, program, tmp_path_factory.mktemp(f"{program}-{path}"))
    yield made
    made.stop()


@pytest.mark.long
def test_some_faults(run: Run) -> None:
    """A few calls of each kind, among them those that once left something behind."""
    cases = [
        (1, OUT_OF_MEMORY, ONCE, "vkCreateInstance"),
        (2, -3, ONCE, "vkEnumeratePhysicalDevices"),
        (1, OUT_OF_MEMORY, ONCE, "vkCreateDevice"),
        (3, OUT_OF_MEMORY, ONCE, "vkAllocateMemory"),
        (2, OUT_OF_MEMORY, FROM_THEN_ON, "vkAllocateMemory"),
        (1, OUT_OF_MEMORY, ONCE, "vkAllocateCommandBuffers"),
        (1, OUT_OF_MEMORY, FROM_THEN_ON, "vkCreateFence"),
        (1, OUT_OF_MEMORY, FROM_THEN_ON, "vkWaitForFences"),
        (1, LOST, ONCE, "vkWaitForFences"),
        (3, LOST, ONCE, "vkWaitForFences"),
        (2, OUT_OF_MEMORY, FROM_THEN_ON, "vkQueueSubmit"),
        (run.calls - 30, OUT_OF_MEMORY, FROM_THEN_ON, ""),
    ]
    if run.program == "session":
        cases.append((1, OUT_OF_MEMORY, FROM_THEN_ON, "vkGetQueryPoolResults"))
    assert run.failures(cases) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stays", [ONCE, FROM_THEN_ON], ids=["once", "from-then-on"])
@pytest.mark.parametrize("result", [OUT_OF_MEMORY, LOST], ids=["memory", "lost"])
def test_every_fault(run: Run, result: int, stays: bool) -> None:
    """All calls, in their order."""
    cases = [(nth, result, stays, "") for nth in range(1, run.calls + 1)]
    assert run.failures(cases) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_full_memory(run: Run) -> None:
    """Nothing can be allocated from some moment on, all else works."""
    calls = run.allocations
    cases = [(nth, OUT_OF_MEMORY, FROM_THEN_ON, "vkAllocateMemory") for nth in range(1, calls + 1)]
    assert run.failures(cases) == []
