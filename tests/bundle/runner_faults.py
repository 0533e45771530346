"""Child process of test_runner_faults.py: a bundle run while a Vulkan layer lets calls fail.

Arguments: the layer's library, the runner's, bundle, inputs and expected outputs (.npz), options as
JSON. Each line of the input is a case (nth, result, stays, only); an answer goes out for each: what
was raised, which call failed, what the driver still has, and whether the run behind it is right.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import numpy as np
from tests.bundle.networks import Made, answers
from tests.runtime.fault_run import Faults

from vknn.bundle.runner import Runner
from vknn.errors import VknnError

layer, library, bundle, feeds, expected, text = sys.argv[1:]
case = Made(Path(bundle), dict(np.load(feeds)), dict(np.load(expected)))
options = json.loads(text)


def right() -> bool:
    with Runner(bundle, library=library, threads=1, **options) as runner:
        found = answers(runner, case)
        profile = runner.profile(1)
    same = [np.array_equal(found[n], a) for n, a in case.expected.items()]
    return all(same) and bool(json.loads(profile)["steps"])


faults = Faults(layer)
faults.arm()
assert right()
print(faults.calls, flush=True)
for line in sys.stdin:
    nth, result, stays, only = json.loads(line)
    faults.arm(nth, result, stays, only)
    raised, told = "", ""
    try:
        right()
    except VknnError as error:
        raised, told = type(error).__name__, str(error)
    gc.collect()
    done = faults.done
    faults.arm()
    left = faults.live()
    print(json.dumps([done, raised, told, left, right()]), flush=True)
