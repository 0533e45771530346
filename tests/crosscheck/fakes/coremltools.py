"""Stand-in for coremltools on a Mac: as strict about inputs, and NumPy computes.

FAKE_COREML in the environment is its fault: "wrong" has all numbers half as large again, "refuses"
does not compile the model, "fails" does not predict.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

import vknn
from vknn.formats.coreml import coreml_pb2 as pb

__version__ = "9.0"
FAULT = os.environ.get("FAKE_COREML")
#: Colour space of gray images.
GRAY = 10


class ComputeUnit(enum.Enum):
    """Units that compute."""

    ALL = 1
    CPU_ONLY = 3


class MLModel:
    """A model, from its file."""

    def __init__(self, model: str, compute_units: ComputeUnit = ComputeUnit.ALL) -> None:
        if FAULT == "refuses":
            raise RuntimeError("Error compiling model: it is no good")
        assert compute_units is ComputeUnit.CPU_ONLY  # others compute in fewer bits
        self._file, self._spec = model, pb.Model()
        self._spec.ParseFromString(Path(model).read_bytes())

    def get_spec(self) -> Any:
        return self._spec

    def predict(self, data: dict[str, Any]) -> dict[str, Any]:
        """Outputs by name: arrays, and of classifiers a label and a dict, in any order."""
        if FAULT == "fails":
            raise RuntimeError("Unable to compute the prediction")
        for feature in self._spec.description.input:
            check(feature, data[feature.name])
        with vknn.Session(self._file, device="numpy") as session:
            found = session.run(data)
        return {name: given_out(value) for name, value in found.items()}


def check(feature: Any, value: Any) -> None:
    """Check of an input; raises what it is not."""
    kind = feature.type.WhichOneof("Type")
    if kind == "imageType":
        mode = "L" if feature.type.imageType.colorSpace == GRAY else "RGB"
        if not isinstance(value, Image.Image) or value.mode != mode:
            raise TypeError(f"{feature.name}: no picture of mode {mode}: {type(value)}")
    elif not isinstance(value, np.ndarray) or value.dtype.name not in (
        *("float32", "float64", "int32"),
    ):
        raise TypeError(f"{feature.name}: no array of numbers: {type(value)}")


def given_out(value: Any) -> Any:
    factor = 1.5 if FAULT == "wrong" else 1.0
    if isinstance(value, dict):
        return {label: factor * share for label, share in reversed(value.items())}
    return factor * value if isinstance(value, np.ndarray) else value


models = SimpleNamespace(MLModel=MLModel)
