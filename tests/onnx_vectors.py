"""The vectors of ONNX (shared/vectors/onnx): models with inputs and the outputs that are right.

Which differences count stands in the folder's README: floats by their type and the largest
magnitude of the expected output, integers exactly, unless the index says otherwise.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import UnsupportedLayerError, VknnError
from vknn.runtime import Device
from vknn.session import Session

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "vectors" / "onnx"
#: Cases that vknn does not support yet, one a line; tools/onnx_unsupported.py writes it.
UNSUPPORTED = Path(__file__).resolve().parent / "peers" / "onnx" / "unsupported.txt"
#: Of the largest magnitude, by dtype.
TOLERANCES = {"float32": 1e-4, "float64": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}
_STORED_AS_BITS = (
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn",
    "float6_e3m2fn", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
Case = Mapping[str, Any]


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases of the index; none where the vectors are not there."""
    index = FOLDER / "index.json"
    return tuple(json.loads(index.read_text())) if index.exists() else ()


def operators() -> list[str]:
    """The operators that cases are filed under."""
    return sorted({case["op"] for case in cases()})


def unsupported() -> frozenset[str]:
    """Ids of the cases that vknn does not support yet."""
    return frozenset(UNSUPPORTED.read_text().split()) if UNSUPPORTED.exists() else frozenset()


def problem(case: Case, device: str | Device) -> str | None:
    """What is wrong with a case's outputs on a device, or None. Raises UnsupportedLayerError."""
    folder = FOLDER / case["id"]
    try:
        with Session(folder / "model.onnx", device=device) as session:
            for number, run in enumerate(_runs(case)):
                name = "" if number == 0 else str(number)
                feeds = _arrays(folder / f"inputs{name}.npz", run["inputs"])
                expected = _arrays(folder / f"expected{name}.npz", run["outputs"])
                names = [spec["name"] for spec in run["inputs"]]
                found = session.run(dict(zip(names, feeds, strict=True)))
                for spec, wanted in zip(run["outputs"], expected, strict=True):
                    text = difference(found[spec["name"]], wanted, case["tol"])
                    if text:
                        return f"{spec['name']}: {text}"
    except UnsupportedLayerError:
        raise
    except VknnError as error:
        return str(error)
    return None


def _runs(case: Case) -> Iterator[Mapping[str, Any]]:
    yield case
    yield from case.get("more", ())


def _arrays(path: Path, specs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Arrays, lists of arrays for sequences, None for optionals that are absent."""
    with np.load(path, allow_pickle=False) as stored:
        found: list[Any] = []
        for place, spec in enumerate(specs):
            if spec["kind"] == "none":
                found.append(None)
            elif spec["kind"] == "sequence":
                count = sum(1 for name in stored if name.startswith(f"{place}."))
                parts = [stored[f"{place}.{i}"] for i in range(count)]
                found.append([_typed(part, spec.get("dtype", "")) for part in parts])
            else:
                found.append(_typed(stored[str(place)], spec["dtype"]))
        return found


def _typed(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "str":
        return array.astype(object)
    if dtype in _STORED_AS_BITS:
        import ml_dtypes

        return array.view(np.dtype(getattr(ml_dtypes, dtype)))
    return array


def difference(found: Any, expected: Any, tolerance: Mapping[str, Any]) -> str | None:
    """Description of how a result differs from what is right, or None."""
    if expected is None or found is None:
        return None if found is expected else f"{type(found).__name__}, not what is expected"
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return "is no list of the right length"
        pairs = zip(found, expected, strict=True)
        return next((text for a, b in pairs if (text := difference(a, b, tolerance))), None)
    if not isinstance(found, np.ndarray) or found.shape != expected.shape:
        return f"shape {np.shape(found)}, expected {expected.shape}"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if tolerance.get("stat"):
        return None
    if expected.dtype == object:
        wrong = int((found != expected).sum())
        return f"{wrong} of {expected.size} strings differ" if wrong else None
    if expected.dtype.kind in "iub" or expected.dtype.name in ("int4", "uint4", "int2", "uint2"):
        return _integer_difference(found, expected, float(tolerance.get("off1", 0.0)))
    return _float_difference(found, expected, tolerance)


def _integer_difference(found: np.ndarray, expected: np.ndarray, off_by_one: float) -> str | None:
    wrong = found != expected
    if not wrong.any():
        return None
    step = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
    if step <= 1 and wrong.mean() <= off_by_one:
        return None
    return f"{int(wrong.sum())} of {expected.size} differ, by up to {step:g}"


def _float_difference(
    found: np.ndarray, expected: np.ndarray, tolerance: Mapping[str, Any]
) -> str | None:
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    sizes = np.where(np.isfinite(b), np.abs(b), 0.0)
    share = tolerance.get("range", TOLERANCES.get(expected.dtype.name, 0.0))
    allowed = np.full(b.shape, share * max(float(sizes.max(initial=0.0)), 1e-6))
    if "each" in tolerance:
        allowed = tolerance["each"] * sizes + 1e-6
    looser = tolerance.get("rtol", 0.0) * sizes + tolerance.get("atol", 0.0)
    allowed = np.maximum(allowed, looser)
    with np.errstate(invalid="ignore"):
        far = np.abs(a - b)
        good = (a == b) | (np.isnan(a) & np.isnan(b)) | (far <= allowed)
    if good.all():
        return None
    return f"{int((~good).sum())} of {expected.size} differ, by up to {np.nanmax(far[~good]):.3g}"
