"""Files as Polygraphy writes them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def array(data: bytes) -> dict[str, str]:
    """An array of which these are the contents of a .npy file."""
    return {"array": base64.b64encode(data).decode(), "polygraphy_class": "ndarray"}


def inputs(iterations: Sequence[Arrays]) -> list[dict[str, Any]]:
    """What --save-inputs writes."""
    return [{n: array(npy(a)) for n, a in arrays.items()} for arrays in iterations]


def results(runners: Mapping[str, Sequence[Arrays]]) -> dict[str, Any]:
    """What --save-outputs writes."""
    return {
        "lst": [
            [name, [_iteration(name, arrays) for arrays in iterations]]
            for name, iterations in runners.items()
        ],
        "polygraphy_class": "RunResults",
    }


def _iteration(runner: str, arrays: Arrays) -> dict[str, Any]:
    lazy = {
        n: {"values": array(npy(a)), "polygraphy_class": "LazyArray"} for n, a in arrays.items()
    }
    return {
        "outputs": lazy,
        "runtime": 0.1,
        "runner_name": runner,
        "polygraphy_class": "IterationResult",
    }


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document, indent=4), encoding="utf-8")
    return path
