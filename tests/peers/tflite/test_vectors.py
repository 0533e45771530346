"""Each operator against what TensorFlow Lite's reference kernels gave for it.

The vectors lie beside the project (shared/vectors/tflite, a folder an operator): a model, inputs,
outputs. Integers, quantized or not, must be equal; floats within 1e-5 of the largest magnitude, or
what the vector allows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.errors import VknnError
from vknn.runtime import Device
from vknn.session import Session

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "tflite"
OPERATORS = sorted(p.name for p in FOLDER.iterdir()) if FOLDER.is_dir() else []
TOLERANCE = 1e-5
#: Operators with many vectors of long plans: every so many of them, all of them with --slow.
SAMPLED = {
    "bidirectional_sequence_lstm": 3, "bidirectional_sequence_rnn": 4, "lstm": 3,
    "unidirectional_sequence_lstm": 3,
}  # fmt: skip


def _difference(found: np.ndarray, expected: np.ndarray, tolerance: float) -> str | None:
    """Description of the difference of a result, or None."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if expected.dtype.kind in "SO":
        wanted = [bytes(v) for v in expected.reshape(-1)]
        return None if [bytes(v) for v in found.reshape(-1)] == wanted else "other strings"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if expected.dtype.kind != "f":
        wrong = int((found != expected).sum())
        return f"{wrong} of {expected.size} differ" if wrong else None
    finite = expected[np.isfinite(expected)]
    largest = float(np.abs(finite).max()) if finite.size else 1.0
    close = np.isclose(found, expected, rtol=0, atol=tolerance * max(largest, 1e-6), equal_nan=True)
    return None if close.all() else f"off by up to {np.nanmax(np.abs(found - expected)):.3g}"


def _run(path: Path, model: Path, device: str | Device) -> str | None:
    data = np.load(path, allow_pickle=True)
    meta: dict[str, Any] = json.loads(bytes(data["meta"]))
    model.write_bytes(data["model"].tobytes())
    try:
        with Session(model, device=device) as session:
            results = session.run({n: data[f"in{i}"] for i, n in enumerate(meta["ins"])})
    except VknnError as error:
        return str(error)
    for number, name in enumerate(meta["outs"]):
        tolerance = float(meta.get("tol", TOLERANCE))
        problem = _difference(results[name], data[f"out{number}"], tolerance)
        if problem:
            return f"{name}: {problem}"
    return None


def _vectors(operator: str, whole: bool) -> list[Path]:
    files = sorted((FOLDER / operator).glob("*.npz"))
    return files if whole else files[:: SAMPLED.get(operator, 1)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator: str, backend: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    device = "numpy" if backend == "numpy" else shared_device()
    problems = []
    for path in _vectors(operator, backend == "numpy" or pytestconfig.getoption("--slow")):
        problem = _run(path, tmp_path / "model.tflite", device)
        if problem:
            problems.append(f"{path.stem}: {problem}")
    assert not problems, "\n".join(problems)


def test_the_vectors_are_there() -> None:
    if not OPERATORS:
        pytest.skip(f"needs the test vectors in {FOLDER}")
    assert len(OPERATORS) > 100
