"""Operators with codes from 128 on, small types, resources and signatures against TensorFlow Lite.

The vectors lie beside the project (shared/vectors/tflite-newer, a folder an operator; its README
says what is in them): one file, one session, several runs of it. Integers, strings, shapes and
types must be equal; floats within 1e-5 of the largest magnitude, or what the vector allows.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.errors import VknnError
from vknn.session import Session

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "tflite-newer"
VECTORS = sorted(FOLDER.glob("*/*.npz"))
GOOD = [path for path in VECTORS if path.parent.name != "malformed"]
DAMAGED = [path for path in VECTORS if path.parent.name == "malformed"]
TOLERANCE = 1e-5
#: How far mean and deviation of numbers that no seed fixes may be off.
SPREAD = 0.05


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _write(path: Path, folder: Path) -> tuple[Any, dict[str, Any]]:
    """A vector's arrays and description; its files are written into ``folder``."""
    data = np.load(path)
    for name in data.files:
        if name.startswith("file/"):
            (folder / name.removeprefix("file/")).write_bytes(data[name].tobytes())
    return data, json.loads(bytes(data["meta"]))


def _run(session: Session, data: Any, meta: dict[str, Any], number: int) -> dict[str, np.ndarray]:
    feeds = {n: data[f"run{number}/in/{n}"] for n in meta["ins"][number]}
    keys = meta.get("signatures")
    if keys:
        return session.run(feeds, signature=keys[number])
    return session.run(feeds)


def _all_runs(model: Path, device: Any, data: Any, meta: dict[str, Any]) -> None:
    with Session(model, device=device) as session:
        for number in range(meta["runs"]):
            _run(session, data, meta, number)


def _problem(found: np.ndarray, expected: np.ndarray, tolerance: float) -> str | None:
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if expected.dtype.kind in "SO":
        pairs = zip(found.reshape(-1), expected.reshape(-1), strict=True)
        return None if all(bytes(a) == bytes(b) for a, b in pairs) else "other strings"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if expected.dtype.kind not in "fc":
        wrong = int((found != expected).sum())
        return f"{wrong} of {expected.size} differ" if wrong else None
    finite = expected[np.isfinite(expected)]
    largest = float(np.abs(finite).max()) if finite.size else 1.0
    close = np.isclose(found, expected, rtol=0, atol=tolerance * max(largest, 1e-6), equal_nan=True)
    return None if close.all() else f"off by up to {np.nanmax(np.abs(found - expected)):.3g}"


def _unlike(found: np.ndarray, expected: np.ndarray, stats: dict[str, float]) -> str | None:
    """Difference of numbers that are drawn anew each time, by what is known of them."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.shape} {found.dtype}, expected {expected.shape} {expected.dtype}"
    own = {"mean": float(found.mean()), "std": float(found.std())}
    off = {name: own[name] for name in stats if abs(own[name] - stats[name]) > SPREAD}
    return f"{off}, expected {stats}" if off else None


@pytest.mark.parametrize("path", GOOD, ids=_name)
def test_vector(path: Path, backend: str, tmp_path: Path) -> None:
    data, meta = _write(path, tmp_path)
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(tmp_path / meta["entry"], device=device) as session:
        for number in range(meta["runs"]):
            results = _run(session, data, meta, number)
            assert sorted(results) == sorted(meta["outs"][number])
            for place, name in enumerate(meta["outs"][number]):
                expected = data[f"run{number}/out/{name}"]
                if "stats" in meta:
                    problem = _unlike(results[name], expected, meta["stats"][place])
                else:
                    tolerance = float(meta.get("tol", TOLERANCE))
                    problem = _problem(results[name], expected, tolerance)
                assert problem is None, f"run {number}, {name}: {problem}"


@pytest.mark.parametrize("path", DAMAGED, ids=_name)
def test_damaged(path: Path, backend: str, tmp_path: Path) -> None:
    data, meta = _write(path, tmp_path)
    device = "numpy" if backend == "numpy" else shared_device()
    begin = time.perf_counter()
    with pytest.raises(VknnError, match="."):
        _all_runs(tmp_path / meta["entry"], device, data, meta)
    assert time.perf_counter() - begin < 30


def test_the_vectors_are_there() -> None:
    if not VECTORS:
        pytest.skip(f"needs the test vectors in {FOLDER}")
    assert len(GOOD) > 300
    assert len(DAMAGED) > 10
