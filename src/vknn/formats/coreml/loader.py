"""Loading of a .mlmodel as a :class:`Model`, with all checks that need no inputs."""

from __future__ import annotations

from pathlib import Path

from vknn.errors import ModelFormatError
from vknn.formats.coreml import layers as _layers  # noqa: F401 (registers the layers)
from vknn.formats.coreml.outer_fields import check_outer_fields
from vknn.formats.coreml.pipeline import make_model
from vknn.formats.coreml.reader import parse_model
from vknn.formats.model import Model


def load(path: Path, weights: Path | None = None) -> Model:
    """Reading of a .mlmodel file. Raises ModelFormatError and UnsupportedLayerError."""
    file = str(path)
    if weights is not None:
        raise ModelFormatError(
            f"a Core ML model has no second file; {weights} is not needed", file=file
        )
    try:
        check_outer_fields(path)
        data = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error}", file=file) from error
    return make_model(parse_model(data, file), file)
