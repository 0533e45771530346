"""Each layer against what OpenVINO gave for it, or an independent computation.

The vectors lie beside the project (shared/vectors/openvino, a folder a net): both files, inputs and
outputs of one or several runs. Integers must be equal; floats within 1e-4 of the largest magnitude.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.session import Session

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "openvino"
INDEX = FOLDER / "index.json"
VECTORS: dict[str, dict[str, Any]] = (
    {v["name"]: v for v in json.loads(INDEX.read_text(encoding="utf-8"))} if INDEX.exists() else {}
)
TOLERANCE = 1e-4


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_vector(name: str, backend: str) -> None:
    vector = VECTORS[name]
    folder = FOLDER / vector["folder"]
    device = "numpy" if backend == "numpy" else shared_device()
    with np.load(folder / "data.npz") as data, Session(folder / "model.xml", device=device) as net:
        for run in range(vector["runs"]):
            found = net.run(_arrays(data, f"run{run}/in/"))
            expected = _arrays(data, f"run{run}/out/")
            assert set(found) == set(expected)
            for output, array in expected.items():
                _check(found[output], array, vector)
        sides = set(net.placement.values())
        assert sides <= {"host" if backend == "numpy" else "vulkan"}


def _arrays(data: Any, prefix: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): data[n] for n in data if n.startswith(prefix)}


def _check(found: np.ndarray, expected: np.ndarray, vector: dict[str, Any]) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if expected.dtype.kind != "f":
        assert np.array_equal(found, expected)
        return
    # What the index allows is the most that is allowed at all.
    np.testing.assert_allclose(found, expected, vector["rtol"], vector["atol"])
    reach = float(np.abs(expected).max(initial=0))
    assert np.abs(found - expected).max(initial=0) <= TOLERANCE * max(reach, 1e-6)


def test_the_vectors_are_there() -> None:
    if not VECTORS:
        pytest.skip(f"needs the test vectors in {FOLDER}")
    assert len(VECTORS) > 300
