"""Loading of .xml and .bin as an :class:`OpenvinoModel`."""

from __future__ import annotations

from pathlib import Path

from vknn.errors import ModelFormatError
from vknn.formats.openvino.model import OpenvinoModel
from vknn.formats.openvino.reader import parse_net
from vknn.formats.openvino.validation import check
from vknn.formats.openvino.xml import MAX_BYTES


def load(path: Path, weights: Path | None = None) -> OpenvinoModel:
    """Reading of a net; ``weights``: by default the .bin of the same stem, which is memory-mapped.

    Raises ModelFormatError and UnsupportedLayerError.
    """
    file = str(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelFormatError(f"larger than {MAX_BYTES} bytes, which no net is", file=file)
        data = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error.strerror}", file=file) from error
    net = parse_net(data, file)
    beside = path.with_suffix(".bin") if weights is None else weights
    found = check(net, beside, file, given=weights is not None)
    return OpenvinoModel(net, found, file)
