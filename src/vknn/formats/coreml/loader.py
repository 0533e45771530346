"""Loading of a .mlmodel as a :class:`Model`, with all checks that need no inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vknn.errors import ModelFormatError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml import layers as _layers  # noqa: F401 (registers the layers)
from vknn.formats.coreml.pipeline import make_model
from vknn.formats.coreml.reader import check_kind, parse_model
from vknn.formats.message_outline import check_outline
from vknn.formats.model import Model

#: What may be large in a model: the bytes of weights.
_WEIGHTS = {f"WeightParams.{name}" for name in ("float16Value", "rawValue", "int8RawValue")}


def load(path: Path, weights: Path | None = None) -> Model:
    """Reading of a .mlmodel file. Raises ModelFormatError and UnsupportedLayerError."""
    file = str(path)

    def refuse(field: Any) -> None:
        """A model of a kind that vknn does not run is refused as such, however large it is."""
        if field.containing_oneof is not None and field.containing_type is pb.Model.DESCRIPTOR:
            check_kind(pb.Model(**{field.name: b""}), file)

    if weights is not None:
        raise ModelFormatError(
            f"a Core ML model has no second file; {weights} is not needed", file=file
        )
    try:
        check_outline(path, pb.Model.DESCRIPTOR, _WEIGHTS, "a Core ML model", refuse)
        data = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error}", file=file) from error
    return make_model(parse_model(data, file), file)
