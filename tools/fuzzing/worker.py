"""Worker: a child process that runs cases, one after another, until it is ended.

Arguments: the seed, the formats (with commas), "numpy" or the name of a device, bytes of address
space. Numbers of cases come as lines, an outcome as JSON goes out for each, and at the end what is
left of native objects when the device is closed.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import gc
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzzing import case as cases
from vknn.errors import DeviceError
from vknn.runtime import Device, live_objects, open_device

#: Bytes that the process may grow by in a case, beside what the budget allows to be used.
MOST_GROWTH = 6 * cases.MEMORY_LIMIT


def main(seed: str, formats: str, device: str, address_space: str) -> None:
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what others print does not belong there
    limit = int(address_space)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    opened = _device(device)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({"device": opened.name if opened else "NumPy"}), file=answers, flush=True)
        for line in sys.stdin:
            before = _restarted_peak()
            names = tuple(formats.split(","))
            outcome = cases.run(int(seed), int(line), Path(folder), opened, names)
            grown = _peak() - before
            if grown > MOST_GROWTH:
                outcome.add("memory", f"{grown >> 20} MiB taken, {outcome.done}", outcome.name)
            print(json.dumps(dataclasses.asdict(outcome)), file=answers, flush=True)
    if opened is not None:
        opened.close()
    gc.collect()
    print(json.dumps({"left": live_objects()}), file=answers, flush=True)


def _device(name: str) -> Device | None:
    if name == "numpy":
        return None
    try:
        return open_device(name)
    except DeviceError as error:
        print(f"without a device: {error}", file=sys.stderr)
        return None


def _restarted_peak() -> int:
    """Bytes in memory now, from where the peak is counted anew."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _peak()


def _peak() -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(text.partition("VmHWM:")[2].split()[0]) << 10


if __name__ == "__main__":
    main(*sys.argv[1:])
