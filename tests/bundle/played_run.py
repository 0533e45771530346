"""Child process of test_runner_devices.py: bundles on devices that the layer plays.

Arguments: the layer's library, the runner's. Each line of the input is a case (play, bundle, inputs
in hexadecimal, options of the net, options of the context); for each an answer goes out: what was
raised, the first output before any run and of each, bytes of memory by type, and what was logged.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

from tests.bundle.sharing_nets import Nets

from vknn.errors import VknnError

TYPES = 4


def answer(played: Any, play: str, bundle: str, feeds: list[Any], net: Any, context: Any) -> Any:
    """What came of a case."""
    os.environ["VKNN_PLAY"] = play
    cache = context.get("cache")
    found: dict[str, Any] = {"raised": "", "outputs": []}
    options = {"cache": os.fsencode(cache)} if cache else {}
    try:
        with Nets(sys.argv[2], **options) as nets:
            found["told"] = nets.told
            opened = nets.open(bundle, **net)
            found["before"] = opened.get().hex()
            for feed, reset in feeds:
                found["outputs"].append(opened.run(bytes.fromhex(feed), reset).hex())
            found["profile"] = json.loads(opened.profile())
            found["allocated"] = [played.vknn_play_allocated(type_) for type_ in range(TYPES)]
            opened.close()
    except VknnError as error:
        found["raised"] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    played = ctypes.CDLL(sys.argv[1])
    played.vknn_play_allocated.restype = ctypes.c_ulonglong
    for line in sys.stdin:
        print(json.dumps(answer(played, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
