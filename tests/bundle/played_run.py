"""Child process of test_runner_devices.py: bundles on devices that the layer plays.

Arguments: the layer's library, the runner's. Each line of the input is a case (play, bundle, inputs
in hexadecimal, options of the net, options of the context); for each an answer goes out: what was
raised, the first output before any run and of each, bytes of memory by type, and what was logged.
Of a case with a model beside the bundle ("session" among the context's options) also what vknn's
own runtime makes of the device: whether it shares memory, and the first output for each input.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

import numpy as np
from tests.bundle.sharing_nets import Nets

import vknn
from vknn.errors import VknnError

TYPES = 4


def answer(played: Any, play: str, bundle: str, feeds: list[Any], net: Any, context: Any) -> Any:
    """What came of a case."""
    os.environ["VKNN_PLAY"] = play
    cache, model = context.get("cache"), context.get("session")
    found: dict[str, Any] = {"raised": "", "outputs": []}
    options = {"cache": os.fsencode(cache)} if cache else {}
    if model:
        found["session"] = of_session(model, [bytes.fromhex(feed) for feed, _ in feeds])
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


def of_session(model: str, feeds: list[bytes]) -> dict[str, Any]:
    """What vknn's runtime makes of the device for a network with one input of float32."""
    with vknn.Session(model, device="vulkan") as session:
        [port] = session.inputs
        arrays = [np.frombuffer(feed, np.float32).reshape(port.hint) for feed in feeds]
        outputs = [next(iter(session.run({port.name: array}).values())) for array in arrays]
        shared = session.device.limits.unified_memory
    return {"shared": shared, "outputs": [array.tobytes().hex() for array in outputs]}


def main() -> None:
    played = ctypes.CDLL(sys.argv[1])
    played.vknn_play_allocated.restype = ctypes.c_ulonglong
    for line in sys.stdin:
        print(json.dumps(answer(played, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
