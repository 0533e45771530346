"""Child process of test_faults.py: sessions whose native calls the layer of fault_layer/ lets fail.

Arguments: the layer's library, a model, the memory path. Cases come as JSON lines [nth, result,
stays, only] (see ``vknn_faults_arm``), one answer goes out for each, with what was wrong with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from typing import Any

import numpy as np
from tests.small_model import SHAPE

import vknn
from vknn.plan import Role
from vknn.runtime import Device, live_objects, open_device
from vknn.runtime.vulkan.vk_result import result_error

FEEDS = {"data": np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)}


class Faults:
    """The layer, as loaded into this process."""

    def __init__(self, library: str) -> None:
        self._lib = ctypes.CDLL(library)
        self._lib.vknn_faults_name.restype = ctypes.c_char_p
        for name in ("calls", "done", "live"):
            getattr(self._lib, f"vknn_faults_{name}").restype = ctypes.c_long
        arguments = [ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
        self._lib.vknn_faults_arm.argtypes = arguments

    def arm(self, nth: int = 0, result: int = 0, stays: bool = False, only: str = "") -> None:
        self._lib.vknn_faults_arm(nth, result, stays, only.encode())

    @property
    def calls(self) -> int:
        return int(self._lib.vknn_faults_calls())

    @property
    def done(self) -> str:
        """Name of the call that was let fail; empty where none was."""
        return self._lib.vknn_faults_name().decode()

    def live(self) -> dict[str, int]:
        """Objects that the driver made and was not told to destroy."""
        found, name, kind = {}, ctypes.c_char_p(), 0
        while (count := self._lib.vknn_faults_live(kind, ctypes.byref(name))) >= 0:
            if count:
                found[name.value.decode()] = count
            kind += 1
        return found


def with_copies(device: Device) -> Device:
    """The device with a queue for copies; where the driver has one only, that stands for both."""
    core = device.shared.core
    core.copies = core.copies or core.queue
    return device


def use(model: str, path: str) -> list[np.ndarray]:
    """All that a session does with native calls: runs, a stream, a profile, and the close.

    And what verify does besides: buffers are read, and the guards between them.
    """
    if path == "copying":
        with open_device() as device, vknn.Session(model, device=with_copies(device)) as session:
            return work(session)
    with vknn.Session(model, device="vulkan") as session:
        return work(session)


def work(session: vknn.Session) -> list[np.ndarray]:
    results = [session.run(FEEDS)["out"]]
    results += [found["out"] for found in session.stream([FEEDS] * 3)]
    [executable] = session._engine.program(FEEDS).executables
    profile = executable.profile(session._engine.encode(FEEDS))
    executable.check_guards()
    [output] = [n for n, b in enumerate(executable.plan.buffers) if b.role is Role.OUTPUT]
    read = executable.read(output).view(np.float32)[: results[0].size]
    results.append(read.reshape(results[0].shape))
    return [*results, next(iter(profile.outputs.values())).reshape(results[0].shape)]


def case(faults: Faults, model: str, path: str, expected: Any, order: Any) -> dict[str, Any]:
    """What came of one case."""
    nth, result, stays, only = order
    wrong, error = [], ""
    faults.arm(nth, result, stays, only)
    try:
        found = use(model, path)
        if not all(np.array_equal(*pair) for pair in zip(found, expected, strict=True)):
            wrong.append("results differ")
    except Exception as failure:
        error = type(failure).__name__
        if type(failure) is not type(result_error(result, "")):
            wrong.append(f"{error}: {failure}")
        del failure
    done = faults.done
    gc.collect()
    if left := {**faults.live(), **{f"vknn's {k}": n for k, n in live_objects().items()}}:
        wrong.append(f"left: {left}")
    faults.arm()
    try:
        again = use(model, path)
        if not all(np.array_equal(*pair) for pair in zip(again, expected, strict=True)):
            wrong.append("the next session's results differ")
    except Exception as failure:
        wrong.append(f"the next session: {type(failure).__name__}: {failure}")
    return {"call": done, "error": error, "wrong": wrong}


def main(library: str, model: str, path: str) -> None:
    use(model, path)  # caches are filled: calls are the same ones from now on
    faults = Faults(library)
    counts = []
    for _ in range(3):  # where the machine is busy, waits are made of several calls
        faults.arm()
        expected = use(model, path)
        counts.append(faults.calls)
    print(json.dumps({"calls": min(counts), "left": faults.live()}), flush=True)
    for line in sys.stdin:
        answer = case(faults, model, path, expected, json.loads(line))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
