"""Core ML on a Mac: the outputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.formats.coreml.loader import load

#: Element types of arrays that it takes.
_TAKEN = tuple(map(np.dtype, ("float32", "float64", "int32")))


def run(
    model: str, weights: str | None, feeds: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray]]:
    """Name and version of the engine, and the model's outputs by name.

    On the CPU alone, as its other units compute in fewer bits. Images go in as pictures, and
    probabilities come out in the order of the classes; the best label and images are left out.
    """
    import coremltools

    labels = load(Path(model)).class_labels
    loaded = coremltools.models.MLModel(model, compute_units=coremltools.ComputeUnit.CPU_ONLY)
    kinds = {i.name: i.type.WhichOneof("Type") for i in loaded.get_spec().description.input}
    found = loaded.predict({name: _given(a, kinds.get(name)) for name, a in feeds.items()})
    # A label may be a number, too, and is no tensor.
    numbers = (float, np.floating) if labels else (int, float, np.number)
    arrays = {n: _array(value, labels.get(n, ()), numbers) for n, value in found.items()}
    title = f"coremltools {coremltools.__version__}"
    return title, {n: a for n, a in arrays.items() if a is not None}


def _given(array: np.ndarray, kind: str | None) -> Any:
    """An input as it takes one of a kind."""
    if kind == "imageType":
        return _picture(array)
    if kind == "doubleType":
        return float(array.item())
    if kind == "int64Type":
        return int(array.item())
    return array if array.dtype in _TAKEN else array.astype(np.float32)


def _picture(array: np.ndarray) -> Any:
    from PIL import Image

    plane = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    with np.errstate(all="ignore"):
        pixels = plane.astype(np.uint8)
    if not np.array_equal(pixels, plane):
        raise ValueError("images are of 8 bits: pixels have to be whole numbers from 0 to 255")
    return Image.fromarray(pixels)


def _array(value: Any, labels: Sequence[str], numbers: tuple[type, ...]) -> np.ndarray | None:
    """An output as an array; None of what is none."""
    if isinstance(value, Mapping):
        known = {str(label): share for label, share in value.items()}
        return np.array([known[label] for label in labels]) if labels else None
    return np.asarray(value) if isinstance(value, (np.ndarray, *numbers)) else None
