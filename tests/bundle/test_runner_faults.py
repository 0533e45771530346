"""Native calls that fail under the runner, one after the other (tests/runtime/fault_layer)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.networks import Made, small
from tests.runtime.test_faults import LAYER
from tests.runtime.test_faults import layer as built_layer

pytestmark = pytest.mark.device

ROOT = build.ROOT
HOST, DEVICE, LOST, MAPPING = -1, -2, -4, -5
RAISED = dict.fromkeys((HOST, DEVICE, MAPPING), "OutOfMemoryError") | {LOST: "DeviceLostError"}
#: Without a cache of pipelines everything works; extensions are listed by the loader, too.
SPARED = (
    "vkCreatePipelineCache", "vkGetPipelineCacheData", "vkDeviceWaitIdle",
    "vkEnumerateDeviceExtensionProperties",
)  # fmt: skip
#: Where one of these fails on memory in place, staging memory does.
STAGED_THEN = ("vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


def run(
    net: Made, cases: Sequence[tuple[Any, ...]] | None, **options: Any
) -> tuple[int, list[Any]]:
    """Number of calls of a run, and the answers to the cases (by default each third call fails)."""
    found = built_layer()
    if isinstance(found, str):
        pytest.skip(f"needs the layer of faults: {found}")
    feeds, expected = net.path.with_suffix(".in.npz"), net.path.with_suffix(".out.npz")
    np.savez(feeds, **net.feeds)
    np.savez(expected, **net.expected)
    paths = [found / LAYER.library, build.library(), net.path, feeds, expected]
    arguments = [*paths, json.dumps(options)]
    env = {
        **os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}", "VK_LAYER_PATH": str(found),
        "VK_INSTANCE_LAYERS": LAYER.name, "VKNN_VALIDATE": "0",
        # Mesa's implicit layer reads what a listing of extensions that fails leaves unwritten.
        "NODEVICE_SELECT": "1",
    }  # fmt: skip
    script = Path(__file__).with_name("runner_faults.py")
    child = subprocess.Popen(
        [sys.executable, script, *map(str, arguments)], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    calls = child.stdout.readline()
    if not calls.strip():
        raise AssertionError(child.communicate()[1][-3000:])
    if cases is None:
        results = (DEVICE, LOST, HOST)
        cases = [(n, results[n % 3], n % 2 == 1, "") for n in range(1, int(calls) + 1)]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    out, err = child.communicate(lines, timeout=300)
    assert child.returncode == 0, err[-3000:]
    return int(calls), list(zip(cases, map(json.loads, out.splitlines()), strict=True))


def check(answered: Sequence[Any], staged: bool) -> None:
    for (nth, result, stays, only), (done, raised, told, left, is_right) in answered:
        where = f"call {nth} {done} {only} gives {result}{' from then on' if stays else ''}: {told}"
        assert is_right, where
        if not done:  # the device was quicker than when calls were counted, and was waited for less
            assert nth > 100, where
            continue
        assert not left, f"{where}: left {left}"
        other = not staged and result == DEVICE and done in STAGED_THEN
        if raised or (done not in SPARED and not stays and not other):
            expected = {RAISED[result]}
            assert raised in expected, where
            assert len(told) > 20, where


@pytest.mark.slow
@pytest.mark.parametrize("staged", [False, True])
def test_each_call_fails(net: Made, staged: bool) -> None:
    calls, answered = run(net, None, staged=staged)
    assert calls == len(answered) > 100
    check(answered, staged)


@pytest.mark.parametrize("staged", [True])
def test_calls_fail(net: Made, staged: bool) -> None:
    names = (
        "vkAllocateMemory", "vkMapMemory", "vkCreateComputePipelines", "vkQueueSubmit",
        "vkWaitForFences", "vkCreateDescriptorPool", "vkGetQueryPoolResults", "vkCreateDevice",
        "vkBeginCommandBuffer",
    )  # fmt: skip
    cases = [(1, result, False, name) for name in names for result in (DEVICE, LOST)]
    cases += [(1, DEVICE, False, "vkCreatePipelineCache"), (2, LOST, True, "vkQueueSubmit")]
    cases += [(1, MAPPING, False, "vkMapMemory"), (1, HOST, False, "vkCreateInstance")]
    _, answered = run(net, cases, staged=staged)
    check(answered, staged)
    texts = {case[3]: told for case, (_, _, told, _, _) in answered if case[1] == LOST}
    assert "was lost" in texts["vkWaitForFences"]
    assert "open them again" in texts["vkQueueSubmit"]
