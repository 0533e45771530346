"""Child process of test_runner.py: a bundle run by the C runner, its bits compared.

Arguments: library, bundle, inputs and expected outputs (.npz), options as JSON (``bits``: whether
the answers have to be right).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from tests.bundle.networks import Made, answers

from vknn.bundle.runner import Runner

library, bundle, feeds, expected, text = sys.argv[1:]
options = json.loads(text)
bits = options.pop("bits", True)
case = Made(Path(bundle), dict(np.load(feeds)), dict(np.load(expected)))
with Runner(bundle, library=library, **options) as runner:
    for _ in range(2):
        found = answers(runner, case)
        for name, array in case.expected.items():
            assert not bits or np.array_equal(found[name], array), name
    runner.profile(1)
    print(runner.device)
