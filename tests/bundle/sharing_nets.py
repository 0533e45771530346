"""Nets of one context of the C runner, for tests; and, as a program, what the driver holds of them.

Arguments of the program: the layer of faults, the runner's library, a bundle. Out goes a JSON
object: what is alive (tests/runtime/fault_layer) with the context alone, and behind each step.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from vknn.bundle.runner_library import (
    ContextOptions,
    Message,
    NetOptions,
    PortRecord,
    loaded,
    raise_status,
)

_LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class Nets:
    """A context, what it logs, and nets that are opened in it. A context manager."""

    def __init__(self, library: Path | str, **options: Any) -> None:
        self.lib, self.told = loaded(library), list[str]()
        self._log = _LOG(lambda _, text: self.told.append(text.decode()))
        log = ctypes.cast(self._log, ctypes.c_void_p)
        asked = ContextOptions(log=log, threads=1, **options)
        self.context, why = ctypes.c_void_p(), Message()
        create = self.lib.vknn_context_create
        code = create(ctypes.byref(asked), ctypes.byref(self.context), ctypes.byref(why))
        raise_status(code, why.words)

    def __enter__(self) -> Nets:
        return self

    def __exit__(self, *error: object) -> None:
        self.lib.vknn_context_destroy(self.context)

    def open(self, path: Path | str, sha256: bytes | None = None, **options: Any) -> Net:
        pin = (ctypes.c_uint8 * 32)(*sha256) if sha256 else None
        asked, net, why = NetOptions(sha256=pin, **options), ctypes.c_void_p(), Message()
        code = self.lib.vknn_net_open_file(
            self.context, os.fsencode(path), *map(ctypes.byref, (asked, net, why))
        )
        raise_status(code, why.words)
        return Net(self.lib, net)

    @property
    def taken(self) -> tuple[int, int]:
        """Bytes that the net which was opened last took anew, and of weights that were there."""
        lines = filter(None, (re.match(r"memory: (\d+) bytes, and (\d+)", t) for t in self.told))
        new, there = list(lines)[-1].groups()
        return int(new), int(there)


class Net:
    """A net that is open."""

    def __init__(self, lib: ctypes.CDLL, net: ctypes.c_void_p) -> None:
        self._lib, self._net = lib, net

    @property
    def memory(self) -> int:
        return int(self._lib.vknn_net_memory(self._net))

    def run(self, data: bytes, reset: bool = False) -> bytes:
        """The bytes of the first output; ``reset``: state begins anew once the input is set."""
        self._check(self._lib.vknn_set(self._net, None, data, len(data)))
        if reset:
            self._check(self._lib.vknn_reset(self._net))
        self._check(self._lib.vknn_run(self._net))
        return self.get()

    def run_as_is(self) -> None:
        """A run with what the inputs hold."""
        self._check(self._lib.vknn_run(self._net))

    def get(self) -> bytes:
        """The bytes of the first output as they are."""
        port = PortRecord()
        self._lib.vknn_describe(self._net, 1, 0, ctypes.byref(port))
        found = ctypes.create_string_buffer(port.bytes)
        self._check(self._lib.vknn_get(self._net, None, found, port.bytes))
        return found.raw

    def profile(self) -> str:
        """A profile of one run."""
        text = ctypes.c_void_p()
        self._check(self._lib.vknn_profile(self._net, 1, ctypes.byref(text)))
        told = ctypes.string_at(text.value or 0).decode()
        self._lib.vknn_free(None, text)
        return told

    def _check(self, code: int) -> None:
        raise_status(code, self._lib.vknn_net_message(self._net).decode())

    def close(self) -> None:
        self._lib.vknn_net_close(self._net)


def main() -> None:
    from tests.runtime.fault_run import Faults

    layer, library, bundle, feed = sys.argv[1:]
    faults, alive, data = Faults(layer), dict[str, Any](), np.load(feed).tobytes()
    faults.arm()
    with Nets(library) as nets:
        alive["context"] = faults.live()
        first = nets.open(bundle)
        alive["first"] = faults.live()
        second = nets.open(bundle)
        alive["second"] = faults.live()
        expected = first.run(data)
        first.close()
        alive["first closed"] = faults.live()
        assert second.run(data) == expected
        second.close()
        alive["both closed"] = faults.live()
        # Of the host's memory: where the device's is full, another kind is taken.
        for only, nth in (("vkAllocateMemory", 4), ("vkCreateComputePipelines", 1)):
            alive[only] = _two_at_once(nets, faults, bundle, data, expected, (nth, -1, False, only))
    alive["end"] = faults.live()
    print(json.dumps(alive))


def _two_at_once(
    nets: Nets, faults: Any, bundle: str, data: bytes, expected: bytes, case: tuple[Any, ...]
) -> dict[str, int]:
    """Two threads open and run; a call fails in one of them, the other's answer is right."""
    failed, right = [], []

    def use() -> None:
        try:
            net = nets.open(bundle)
        except Exception as error:
            failed.append(type(error).__name__)
            return
        right.append(net.run(data) == expected)
        net.close()

    faults.arm(*case)
    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, right) == (["OutOfMemoryError"], [True]), (case, failed, right)
    faults.arm()
    return dict(faults.live())


if __name__ == "__main__":
    main()
