"""Writer of .param, .param.bin and .bin files from records and arrays."""

from __future__ import annotations

import dataclasses
import functools
import struct
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from vknn.errors import ShapeError
from vknn.formats.ncnn.binary_reader import END, STRING_KEY
from vknn.formats.ncnn.custom import known_type
from vknn.formats.ncnn.loader import find_types
from vknn.formats.ncnn.params import Params, float_element
from vknn.formats.ncnn.reader import ARRAY_KEY, MAGIC
from vknn.formats.ncnn.records import Bits, LayerRecord, NetRecord, ParamValue
from vknn.formats.ncnn.type_indices import type_index
from vknn.formats.ncnn.weights import TAG_FLOAT16, TAG_INT8, WeightSpec
from vknn.named_files import replacing

#: Storage of tagged float arrays in the file.
Storage = Literal["fp32", "fp16", "table"]
#: Layer name -> weight name -> array. See :func:`weight_specs` for the names and shapes.
Weights = Mapping[str, Mapping[str, np.ndarray]]


def weight_specs(net: NetRecord) -> Iterator[tuple[LayerRecord, WeightSpec]]:
    """All arrays that the layers of ``net`` read, in the order of the .bin."""
    for record, type_ in zip(net.layers, find_types(net), strict=True):
        for spec in type_.weights(type_.params.read(record)):
            yield record, spec


def save(
    net: NetRecord,
    weights: Weights,
    param_path: Path,
    bin_path: Path | None = None,
    storage: Storage = "fp32",
) -> None:
    """Writing of both files; the .bin beside the .param unless named.

    Raises ShapeError where an array is missing or does not have its layer's shape.
    """
    blob = format_bin(net, weights, storage)
    bin_path = bin_path or param_path.with_suffix(".bin")
    for path, data in ((param_path, format_param(net).encode()), (bin_path, blob)):
        with replacing(path) as file:
            file.write(data)


def format_param(net: NetRecord) -> str:
    """Text of the .param."""
    names = set(net.blobs()).union(*(layer.bottoms for layer in net.layers))
    lines = [str(MAGIC), f"{len(net.layers)} {len(names)}"]
    lines += [_format_layer(layer) for layer in net.layers]
    return "\n".join(lines) + "\n"


def _format_layer(layer: LayerRecord) -> str:
    head = f"{layer.type:<16} {layer.name:<24} {len(layer.bottoms)} {len(layer.tops)}"
    parts = [head, *layer.bottoms, *layer.tops]
    floats = _float_ids(layer)
    parts += [_format_param(id_, _typed(v, id_ in floats)) for id_, v in layer.params.items()]
    return " ".join(parts)


def _format_param(id_: int, value: ParamValue) -> str:
    if isinstance(value, tuple):
        numbers = ",".join([str(len(value)), *map(_format_number, value)])
        return f"{ARRAY_KEY - id_}={numbers}"
    if isinstance(value, str):
        return f'{id_}="{value}"'
    return f"{id_}={_format_number(value)}"


def format_param_bin(net: NetRecord) -> bytes:
    """Bytes of the .param.bin; blobs have the indices of :func:`blob_indices`.

    Raises ShapeError for a layer whose type has no number.
    """
    indices = blob_indices(net)
    words = [MAGIC, len(net.layers), len(indices)]
    parts = [struct.pack(f"<{len(words)}i", *words)]
    for layer in net.layers:
        number = type_index(layer.type)
        if number is None:
            raise ShapeError(f"layer {layer.name!r}: {layer.type} has no number in a .param.bin")
        words = [number, len(layer.bottoms), len(layer.tops)]
        words += [indices[name] for name in (*layer.bottoms, *layer.tops)]
        parts.append(struct.pack(f"<{len(words)}i", *words))
        floats = _float_ids(layer)
        parts += [_param_words(id_, v, id_ in floats) for id_, v in layer.params.items()]
        parts.append(struct.pack("<i", END))
    return b"".join(parts)


def blob_indices(net: NetRecord) -> dict[str, int]:
    """Index of each blob by name, in order of production."""
    named = dict.fromkeys([*net.blobs(), *(b for layer in net.layers for b in layer.bottoms)])
    return {name: index for index, name in enumerate(named)}


def _float_ids(layer: LayerRecord) -> frozenset[int]:
    """Ids of the parameters that the layer reads as floats, whatever the records hold."""
    type_ = known_type(layer.type)
    return frozenset() if type_ is None else _floats_among(typing.cast("type", type_.params))


@functools.cache
def _floats_among(params: type[Params]) -> frozenset[int]:
    """Ids of the parameters of a layer type that are floats."""
    kinds = typing.get_type_hints(params)
    return frozenset(
        field.metadata["id"]
        for field in dataclasses.fields(params)
        if "id" in field.metadata
        and float in (kinds[field.name], *typing.get_args(kinds[field.name]))
    )


def _typed(value: ParamValue, floats: bool) -> ParamValue:
    """A parameter with its words (of a .param.bin) as floats where the layer reads floats."""
    if isinstance(value, tuple):
        return tuple(v.as_float() if floats and isinstance(v, Bits) else v for v in value)
    return value.as_float() if floats and isinstance(value, Bits) else value


def _param_words(id_: int, value: ParamValue, floats: bool) -> bytes:
    if isinstance(value, str):
        text = value.encode()
        return struct.pack("<ii", STRING_KEY - id_, len(text)) + _padded(text)
    if isinstance(value, tuple):
        numbers = [float_element(v, f"parameter {id_}") for v in value] if floats else value
        words = b"".join(_word(v, floats) for v in numbers)
        return struct.pack("<ii", ARRAY_KEY - id_, len(value)) + words
    return struct.pack("<i", id_) + _word(value, floats)


def _word(value: int | float, floats: bool) -> bytes:
    if isinstance(value, Bits) or not (floats or isinstance(value, float)):
        return struct.pack("<i", value)
    return struct.pack("<f", value)


def _format_number(value: int | float) -> str:
    """Text of a number; floats with as many digits as reading the same float32 takes."""
    if not isinstance(value, float):
        return str(int(value))
    if not np.isfinite(value):
        raise ShapeError(f"a parameter cannot be {value}")
    short = f"{value:e}"
    return short if np.float32(short) == np.float32(value) else f"{value:.8e}"


def format_bin(net: NetRecord, weights: Weights, storage: Storage = "fp32") -> bytes:
    """Bytes of the .bin. int8 arrays are stored as int8, whatever ``storage`` is."""
    parts = []
    for record, spec in weight_specs(net):
        try:
            array = np.asarray(weights[record.name][spec.name])
        except KeyError:
            raise ShapeError(f"layer {record.name!r} has no {spec.name} {spec.shape}") from None
        if array.size != spec.count:
            raise ShapeError(
                f"layer {record.name!r}: {spec.name} has shape {array.shape}, not {spec.shape}"
            )
        parts.append(_stored(spec, array, storage))
    return b"".join(parts)


def _stored(spec: WeightSpec, array: np.ndarray, storage: Storage) -> bytes:
    if spec.tagged:
        return _tagged(array, storage)
    return _padded(np.ascontiguousarray(array, np.int8).tobytes()) if spec.int8 else _floats(array)


def _floats(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, "<f4").tobytes()


def _tagged(array: np.ndarray, storage: Storage) -> bytes:
    if array.dtype == np.int8:
        return struct.pack("<I", TAG_INT8) + _padded(np.ascontiguousarray(array).tobytes())
    if storage == "fp16":
        half = np.ascontiguousarray(array, "<f2")
        return struct.pack("<I", TAG_FLOAT16) + _padded(half.tobytes())
    if storage == "table":
        return _codebook(array)
    return struct.pack("<I", 0) + _floats(array)


def _codebook(array: np.ndarray) -> bytes:
    """256 evenly spaced values from the smallest to the largest, and an index for each element."""
    table = np.linspace(array.min(), array.max(), 256, dtype=np.float32)
    step = float(table[-1] - table[0]) / 255 or 1.0
    index = np.rint((array.reshape(-1) - table[0]) / step).astype(np.uint8)
    # Any tag that is none of the others stands for a table.
    return struct.pack("<I", 1) + _floats(table) + _padded(index.tobytes())


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
