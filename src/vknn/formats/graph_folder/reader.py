"""Reading of a graph's folder: graph.json, a document, and arrays.npz beside it. Both untrusted.

Every count and index is held against the document, every array's header against it and against
the memory that there is, before anything is allocated; nothing is unpickled.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import ModelFormatError, OutOfMemoryError, ShapeError, UnsupportedLayerError
from vknn.formats.graph_folder.attributes import BadAttribute, op_of
from vknn.formats.graph_folder.model import FolderGraph, FolderNode, FolderValue
from vknn.formats.graph_folder.writer import ARRAYS, VERSION
from vknn.formats.regular_file import refuse_special
from vknn.graph import DType, Quantization
from vknn.host_memory import allowed_host_memory
from vknn.npy_header import read_header

_MAX_JSON_BYTES = 1 << 28
#: What NumPy and Python say of archives and arrays that are none.
_UNREADABLE = (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile, zlib.error)


class _Damaged(Exception):
    """The document is none; the text says where."""


def load(path: Path, weights: Path | None = None) -> FolderGraph:
    """Model of a graph.json and the arrays.npz beside it, or ``weights``.

    Raises ModelFormatError and UnsupportedLayerError.
    """
    file, arrays = str(path), weights or path.with_name(ARRAYS)
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise ModelFormatError(f"larger than {_MAX_JSON_BYTES} bytes", file=file)
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error.strerror}", file=file) from error
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"is no JSON: {error}", file=file) from error
    try:
        return _graph(document, arrays, file)
    except _Damaged as error:
        raise ModelFormatError(str(error), file=file) from error


def _graph(document: Any, arrays: Path, file: str) -> FolderGraph:
    version = document.get("vknn graph") if isinstance(document, dict) else None
    if version != VERSION:
        raise _Damaged(f"is a graph of version {version!r}; this vknn reads version {VERSION}")
    described = [*_list(document, "inputs"), *_list(document, "constants")]
    stored = _Arrays(arrays, described)
    inputs = [_value(d, stored) for d in _list(document, "inputs")]
    constants = [_value(d, stored) for d in _list(document, "constants")]
    names = [v.name for v in inputs]
    if len(set(names)) < len(names):
        raise _Damaged("two inputs have the same name")
    count = len(inputs) + len(constants)
    nodes, unknown = [], []
    for number, given in enumerate(_list(document, "nodes")):
        try:
            node = _node(given, count)
        except BadAttribute as error:
            unknown.append(f"node {number}: {error}")
            continue
        nodes.append(node)
        count += len(node.outputs)
    if unknown:
        raise UnsupportedLayerError(unknown, file=file)
    outputs = document.get("outputs")
    if not isinstance(outputs, dict) or not outputs:
        raise _Damaged("there are no outputs")
    found = {name: _index(number, count, f"output {name!r}") for name, number in outputs.items()}
    name = document.get("name")
    try:
        return FolderGraph(str(name), inputs, constants, nodes, found, file)
    except ShapeError as error:
        raise _Damaged(str(error)) from error


def _node(given: Any, count: int) -> FolderNode:
    if not isinstance(given, dict):
        raise _Damaged("a node is no object")
    name, layer = _text(given, "name"), given.get("layer")
    if not isinstance(layer, list) or [type(x) for x in layer] != [str, str]:
        raise _Damaged(f"node {name!r} has no layer's name and type")
    inputs = tuple(
        None if n is None else _index(n, count, f"node {name!r}") for n in _list(given, "inputs")
    )
    outputs = [(_text(d, "name"), _quantization(d)) for d in _list(given, "outputs")]
    return FolderNode(op_of(given.get("op")), inputs, outputs, name, layer[0], layer[1])


def _value(described: Any, stored: _Arrays) -> FolderValue:
    name = _text(described, "name")
    return FolderValue(name, stored.array(described, name), _quantization(described))


def _quantization(described: Any) -> Quantization | None:
    given = described.get("quantization")
    if given is None:
        return None
    scale, zero, axis = (
        (given.get(k) for k in ("scale", "zero_point", "axis"))
        if isinstance(given, dict)
        else (None, None, None)
    )
    if not isinstance(scale, list) or not isinstance(zero, list) or type(axis) is not int:
        raise _Damaged("a quantization has no scale, zero_point and axis")
    try:
        scales = tuple(float(s["float"] if isinstance(s, dict) else s) for s in scale)
    except (TypeError, ValueError, KeyError):
        raise _Damaged("a quantization's scale is no number") from None
    if any(type(z) is not int for z in zero):
        raise _Damaged("a quantization's zero point is no integer")
    return Quantization(scales, tuple(zero), axis)


class _Arrays:
    """The arrays of a .npz, read one by one, each as its description says."""

    def __init__(self, path: Path, described: list[Any]) -> None:
        self._path = path
        needed = sum(math.prod(_shape(d)) * _dtype(d).itemsize for d in described)
        most = allowed_host_memory()
        if most is not None and needed > most:
            raise OutOfMemoryError(f"{path}: its arrays have {needed} bytes, more than {most}")
        self._archive: zipfile.ZipFile | None = None
        if any("array" in d for d in described):
            refuse_special(path)
            try:
                self._archive = zipfile.ZipFile(path)
            except (OSError, zipfile.BadZipFile) as error:
                text = getattr(error, "strerror", None) or error
                raise ModelFormatError(f"cannot be read: {text}", file=str(path)) from error

    def array(self, described: Any, name: str) -> np.ndarray:
        """The array of a description; raises ModelFormatError where the file has another."""
        dtype, shape = _dtype(described), _shape(described)
        if dtype is DType.STRING:
            return _texts(described, shape, name)
        member = f"{_text(described, 'array')}.npy"
        small = dtype.is_small_float or dtype.is_small_integer
        wanted = np.dtype(f"u{dtype.itemsize}") if small else dtype.numpy
        assert self._archive is not None
        try:
            with self._archive.open(member) as file:
                found, fortran, own = read_header(file)
                if found != shape or own.newbyteorder("=") != wanted or own.hasobject:
                    raise ValueError(f"it is {own}{list(found)}, not {wanted}{list(shape)}")
                data = file.read(math.prod(shape) * wanted.itemsize)
            array = np.frombuffer(data, own).reshape(shape, order="F" if fortran else "C")
        except _UNREADABLE as error:
            raise ModelFormatError(f"array {name!r}: {error}", file=str(self._path)) from error
        if wanted == np.bool_:
            array = array.view(np.uint8) != 0
        array = np.array(array, wanted, order="C")
        return array.view(dtype.numpy) if small else array


def _texts(described: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    given = _list(described, "texts")
    if len(given) != math.prod(shape):
        raise _Damaged(f"array {name!r} has {len(given)} texts for the shape {list(shape)}")
    array = np.empty(len(given), object)
    try:
        array[:] = [base64.b64decode(text, validate=True) for text in given]
    except (TypeError, ValueError, binascii.Error):
        raise _Damaged(f"array {name!r} holds what is no text") from None
    return array.reshape(shape)


def _dtype(described: Any) -> DType:
    try:
        return DType(described["dtype"])
    except (TypeError, KeyError, ValueError):
        raise _Damaged("an array has no known dtype") from None


def _shape(described: Mapping[str, Any]) -> tuple[int, ...]:
    shape = _list(described, "shape")
    if len(shape) > 32 or any(type(n) is not int or not 0 <= n < 1 << 48 for n in shape):
        raise _Damaged("an array has no shape")
    return tuple(shape)


def _list(document: Any, key: str) -> list[Any]:
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise _Damaged(f"there is no list {key!r}")
    return found


def _text(document: Any, key: str) -> str:
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, str):
        raise _Damaged(f"there is no text {key!r}")
    return found


def _index(number: Any, count: int, who: str) -> int:
    if type(number) is not int or not 0 <= number < count:
        raise _Damaged(f"{who} has the number {number!r} of {count} values")
    return number
