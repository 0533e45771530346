"""Weights file (.bin): raw little-endian arrays at the offsets that the .xml states."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vknn.errors import ModelFormatError
from vknn.formats.in_memory import shown_file
from vknn.formats.layer_errors import Malformed
from vknn.formats.openvino.records import STORED, Blob
from vknn.formats.regular_file import refuse_special


class Weights:
    """The weights file, memory-mapped. Raises ModelFormatError if it is missing and ``needed``."""

    def __init__(self, path: Path, needed: bool) -> None:
        self.path = path
        self._data: mmap.mmap | bytes | None = None
        refuse_special(path)
        try:
            with path.open("rb") as stream:
                if path.stat().st_size:
                    self._data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
                else:
                    self._data = b""
        except (OSError, ValueError) as error:
            if needed:
                reason = "no such file" if isinstance(error, FileNotFoundError) else str(error)
                raise ModelFormatError(
                    f"the weights cannot be read: {reason} (weights= names the file where it does "
                    "not lie beside the .xml)",
                    file=str(path),
                ) from None

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return 0 if self._data is None else len(self._data)

    def check(self, blob: Blob, what: str, layer: str) -> None:
        """Check: ModelFormatError unless the blob lies inside the file."""
        if blob.offset + blob.size > self.size:
            raise ModelFormatError(
                f"{what}: {blob.size} bytes at {blob.offset} do not lie inside the file of "
                f"{self.size} bytes (it is cut off, or the .bin of another network)",
                file=str(self.path),
                offset=blob.offset,
                layer=layer,
            )

    def check_end(self, blobs: Sequence[Blob]) -> None:
        """A warning where bytes are left behind the last blob: they may be another net's."""
        left = self.size - max((blob.offset + blob.size for blob in blobs), default=0)
        if left > 0:
            warnings.warn(
                f"{shown_file(self.path)}: {left} of {self.size} bytes are left over behind "
                "the last weights that the .xml names: it may be the .bin of another network",
                RuntimeWarning,
                stacklevel=2,
            )

    def array(self, blob: Blob, what: str) -> np.ndarray:
        """The elements of a blob as they are stored, one-dimensional and aligned; not a copy."""
        dtype = np.dtype(STORED[blob.precision])
        if blob.size % dtype.itemsize:
            raise Malformed(
                f"{what} has {blob.size} bytes, no whole number of {blob.precision} elements"
            )
        if not blob.size or self._data is None:
            return np.zeros(0, dtype)
        found = np.frombuffer(self._data, dtype, blob.size // dtype.itemsize, blob.offset)
        return found if found.flags.aligned else found.copy()
