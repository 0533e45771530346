"""Core ML on a Mac: the outputs of a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def run(
    model: str, weights: str | None, feeds: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray]]:
    """Name and version of the engine, and the model's outputs by name.

    On the CPU alone, as its other units compute in fewer bits. Images go in as pictures.
    """
    import coremltools
    from PIL import Image

    loaded = coremltools.models.MLModel(model, compute_units=coremltools.ComputeUnit.CPU_ONLY)
    images = {
        i.name
        for i in loaded.get_spec().description.input
        if i.type.WhichOneof("Type") == "imageType"
    }
    given = {
        name: Image.fromarray(array.astype(np.uint8)) if name in images else array
        for name, array in feeds.items()
    }
    found = loaded.predict(given)
    arrays = {n: np.asarray(a) for n, a in found.items() if isinstance(a, np.ndarray)}
    return f"coremltools {coremltools.__version__}", arrays
