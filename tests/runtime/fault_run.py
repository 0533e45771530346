"""Child process of test_faults.py: sessions whose native calls the layer of fault_layer/ lets fail.

Arguments: the layer's library, a folder for models, the memory path, the program
(fault_programs.py). Cases come as JSON lines [nth, result, stays, only] (see ``vknn_faults_arm``),
one answer goes out for each, with what was wrong with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.runtime.fault_programs import PROGRAMS, write_models

import vknn
from vknn.runtime import Device, live_objects, open_device
from vknn.runtime.vulkan.lifetime import sweep
from vknn.runtime.vulkan.vk_result import result_error

#: Runs a program.
Use = Callable[[], list[np.ndarray]]


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


def run(program: str, folder: Path, path: str) -> list[np.ndarray]:
    """The results of a program on a memory path."""
    if path == "copying":
        with open_device() as device:
            return PROGRAMS[program](folder, partial(vknn.Session, device=with_copies(device)))
    return PROGRAMS[program](folder, partial(vknn.Session, device="vulkan"))


def case(faults: Faults, use: Use, expected: list[np.ndarray], order: Any) -> dict[str, Any]:
    """What came of one case."""
    nth, result, stays, only = order
    wrong, error = [], ""
    faults.arm(nth, result, stays, only)
    try:
        found = use()
        if not all(np.array_equal(*pair) for pair in zip(found, expected, strict=True)):
            wrong.append("results differ")
    except Exception as failure:
        error = type(failure).__name__
        if type(failure) is not type(result_error(result, "")):
            wrong.append(f"{error}: {failure}")
        del failure
    done = faults.done
    gc.collect()
    try:
        sweep()  # whoever opens next would: tensors that were dropped are closed then
    except Exception as failure:
        wrong.append(f"what was dropped: {type(failure).__name__}: {failure}")
    if left := {**faults.live(), **{f"vknn's {k}": n for k, n in live_objects().items()}}:
        wrong.append(f"left: {left}")
    faults.arm()
    try:
        again = use()
        if not all(np.array_equal(*pair) for pair in zip(again, expected, strict=True)):
            wrong.append("the next session's results differ")
    except Exception as failure:
        wrong.append(f"the next session: {type(failure).__name__}: {failure}")
    return {"call": done, "error": error, "wrong": wrong}


def main(library: str, folder: str, path: str, program: str) -> None:
    write_models(Path(folder))
    use = partial(run, program, Path(folder), path)
    use()  # caches are filled: calls are the same ones from now on
    faults = Faults(library)
    counts = []
    for _ in range(3):  # where the machine is busy, waits are made of several calls
        faults.arm()
        expected = use()
        counts.append(faults.calls)
    faults.arm(only="vkAllocateMemory")
    use()
    about = {"calls": min(counts), "allocations": faults.calls, "left": faults.live()}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        print(json.dumps(case(faults, use, expected, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
