"""Weights in a .bin: a sequence of arrays without names, in the order of the layers.

The file is memory-mapped. Each array is checked against the size of the file before it is used.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.errors import ModelFormatError
from vknn.formats.in_memory import shown_file
from vknn.formats.regular_file import refuse_special

TAG_FLOAT16 = 0x01306B47
TAG_INT8 = 0x000D4B38
TAG_FLOAT32_SCALED = 0x0002C056
_TABLE_ENTRIES = 256


@dataclass(frozen=True)
class WeightSpec:
    """An array that a layer reads. ``tagged``: four bytes in front of it give its storage.

    ``int8``: the layer takes it as int8 only; an untagged one is stored as bytes.
    """

    name: str
    shape: tuple[int, ...]
    tagged: bool = False
    int8: bool = False

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class FileWeight:
    """A view of an array in the file: float32, float16, int8, or bytes that index ``table``."""

    stored: np.ndarray
    shape: tuple[int, ...]
    table: np.ndarray | None = None

    @property
    def is_int8(self) -> bool:
        """True where the file has int8."""
        return self.stored.dtype == np.int8

    def array(self) -> np.ndarray:
        """The array: int8 where the file has int8, else float32 (a view where possible)."""
        if self.table is not None:
            return self.table[self.stored].reshape(self.shape)
        if self.is_int8:
            return self.stored.reshape(self.shape)
        return self.stored.astype(np.float32, copy=False).reshape(self.shape)


class BinReader:
    """Sequential reader of the arrays in a .bin."""

    def __init__(self, path: Path, *, required: bool = True) -> None:
        """Maps the file; without ``required`` a missing file counts as empty."""
        self._path = path
        self.position = 0
        try:
            path.stat()  # exists() tells both errors apart up to Python 3.13 only
            self._missing = False
        except (FileNotFoundError, NotADirectoryError):
            self._missing = True
        except OSError as error:  # no name of a file, or in a folder that cannot be searched
            raise ModelFormatError(f"cannot be read: {error.strerror}", file=str(path)) from error
        if self._missing and required:
            raise ModelFormatError("no such weights file", file=str(path))
        self._data = self._map()

    def _map(self) -> np.ndarray:
        refuse_special(self._path)
        try:
            if self._missing or self._path.stat().st_size == 0:
                return np.zeros(0, np.uint8)
            return np.memmap(self._path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise ModelFormatError(f"cannot be read: {error}", file=str(self._path)) from error

    def read(self, spec: WeightSpec, layer: str) -> FileWeight:
        """The next array. Raises ModelFormatError when the file is too short for it."""
        if any(n <= 0 for n in spec.shape):
            raise self._error(f"{spec.name} would have the shape {spec.shape}", layer)
        if not spec.tagged and spec.int8:
            return FileWeight(self._take(spec, "i1", spec.count, layer), spec.shape)
        if not spec.tagged:
            return FileWeight(self._take(spec, "<f4", spec.count, layer), spec.shape)
        tag = int(self._take(spec, "<u4", 1, layer)[0])
        if tag == TAG_FLOAT16:
            return FileWeight(self._take(spec, "<f2", spec.count, layer), spec.shape)
        if tag == TAG_INT8:
            return FileWeight(self._take(spec, "i1", spec.count, layer), spec.shape)
        if tag in (0, TAG_FLOAT32_SCALED):
            return FileWeight(self._take(spec, "<f4", spec.count, layer), spec.shape)
        # Any other tag stands for a codebook of 256 float32 and an index for each element.
        table = self._take(spec, "<f4", _TABLE_ENTRIES, layer)
        return FileWeight(self._take(spec, "u1", spec.count, layer), spec.shape, table)

    def _take(self, spec: WeightSpec, dtype: str, count: int, layer: str) -> np.ndarray:
        """``count`` elements from the current position, which moves on to a multiple of 4."""
        start = self.position
        padded = -(-count * np.dtype(dtype).itemsize // 4) * 4
        if start + padded > self._data.size:
            if self._missing:
                raise ModelFormatError(
                    f"no such weights file (needed for {spec.name} of layer {layer!r}); weights= "
                    "(--weights) names one that lies elsewhere",
                    file=str(self._path),
                )
            raise self._error(
                f"truncated: {spec.name} {list(spec.shape)} needs {padded} bytes here and the file "
                f"has {self._data.size} in all (it is cut off, or the .bin of another network)",
                layer,
            )
        self.position = start + padded
        raw = self._data[start : start + count * np.dtype(dtype).itemsize]
        return np.frombuffer(raw, dtype)

    def check_end(self) -> None:
        """A warning where bytes are left: ncnn reads such files, and they may be another net's."""
        left = self._data.size - self.position
        if left > 0:
            warnings.warn(
                f"{shown_file(self._path)}: {left} of {self._data.size} bytes are left over behind "
                "the weights of the last layer: it may be the .bin of another network",
                RuntimeWarning,
                stacklevel=2,
            )

    def _error(self, message: str, layer: str) -> ModelFormatError:
        return ModelFormatError(message, file=str(self._path), offset=self.position, layer=layer)
