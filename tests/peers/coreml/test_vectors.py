"""Models of one layer each against independent computations of the specification's formulas.

The vectors lie beside the project (shared/vectors/coreml, a folder a model).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.session import Session

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "coreml"
INDEX = FOLDER / "index.json"
VECTORS: list[dict[str, Any]] = json.loads(INDEX.read_text()) if INDEX.is_file() else []
#: Of the range of the output, where the vector does not allow more.
TOLERANCE = 1e-4


if not VECTORS:

    def test_vectors_are_missing() -> None:
        pytest.skip("no ../shared/vectors/coreml beside the project")


@pytest.mark.parametrize("vector", [pytest.param(v, id=v["name"]) for v in VECTORS])
def test_vector(vector: dict[str, Any], backend: str) -> None:
    folder = FOLDER / vector["name"]
    data = np.load(folder / "data.npz")
    feeds = {key[3:]: data[key] for key in data.files if key.startswith("in/")}
    with Session(
        folder / "model.mlmodel", device="numpy" if backend == "numpy" else shared_device()
    ) as session:
        squeezed = session.model.rank5  # type: ignore[attr-defined]
        results = session.run(feeds)
        if backend == "vulkan":
            assert set(session.placement.values()) <= {"vulkan"}
    for key in data.files:
        if key.startswith("out/"):
            _compare(results[key[4:]], data[key], vector, squeezed)


def _compare(
    found: np.ndarray, expected: np.ndarray, vector: dict[str, Any], squeezed: bool
) -> None:
    assert found.dtype == np.float32
    if squeezed:
        found, expected = np.squeeze(found), np.squeeze(expected)
    assert found.shape == expected.shape
    if vector["snr_db"] is not None:
        noise = float(np.square(found - expected).sum()) or 1e-30
        assert 10 * np.log10(float(np.square(expected).sum()) / noise) > vector["snr_db"]
        return
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-6))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=TOLERANCE * largest)
    np.testing.assert_allclose(found, expected, rtol=vector["rtol"], atol=vector["atol"])
