"""An interrupt while modules register their parts leaves everything usable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.small_model import write_small_model

ROOT = Path(__file__).resolve().parents[1]

#: Ctrl-C comes at the n-th call of a registering function; then the same is done again.
PROGRAM = """
import importlib, sys
import numpy as np
module, function, number, wanted, model = sys.argv[1:]
place = importlib.import_module(module)
real, count = getattr(place, function), 0

def interrupted(*args, **more):
    global count
    count += 1
    if count == int(number):
        raise KeyboardInterrupt
    return real(*args, **more)

setattr(place, function, interrupted)
def use():
    getattr(importlib.import_module(wanted), "import_all", list)()
    import vknn
    with vknn.Session(model, device="numpy" if "formats" in module else "auto") as session:
        return session.run({"data": np.ones((3, 8, 8), np.float32)})["out"].shape
try:
    use()
    raise SystemExit("no interrupt")
except KeyboardInterrupt:
    pass
assert use() == (5,)
"""


@pytest.mark.device
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(
    ("module", "function", "wanted"),
    [
        ("vknn.lowering.kit.registry", "lowers", "vknn.lowering.kernels"),
        ("vknn.formats.tflite.registry", "operator", "vknn.formats.tflite.layers"),
        ("vknn.formats.tflite.registry", "quantized", "vknn.formats.tflite.layers"),
        ("vknn.formats.ncnn.registry", "layer", "vknn.formats.ncnn.layers"),
    ],
)
def test_the_next_try_works(
    module: str, function: str, wanted: str, number: int, tmp_path: Path
) -> None:
    arguments = [module, function, str(number), wanted, str(write_small_model(tmp_path))]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
