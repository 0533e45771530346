"""Layers that move elements: Permute, Pad, Tile, ShuffleChannels, ReverseSequence, shapes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, fixed, refuse, scalar

from vknn.errors import ModelFormatError

DTYPES = (np.float32, np.int32, np.uint8, np.int8, np.int16, np.int64)


def made(shape: tuple[int, ...], dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    values = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 40)
    return np.abs(values).astype(dtype) if dtype is np.uint8 else values.astype(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_permute(backend: str, tmp_path: Path) -> None:
    many = Many()
    shape = (2, 3, 4, 5, 3, 2)
    for rank in range(1, 5):
        for order in itertools.permutations(range(rank)):
            x = made(shape[:rank])
            many.add("Permute", [x], x.transpose(order), {"order": order})
    for order in ((4, 3, 2, 1, 0), (0, 4, 2, 1, 3), (5, 1, 4, 0, 3, 2)):
        x = made(shape[: len(order)])
        many.add("Permute", [x], x.transpose(order), {"order": order})
    for dtype in DTYPES:
        x = made((3, 2, 5), dtype)
        many.add("permute", [x], x.transpose(2, 0, 1), {"order": "2, 0, 1"})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad(mode: str, backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(1)
    shape = (3, 4, 5, 6, 4)
    for rank in range(1, 6):
        for dtype in DTYPES if rank == 2 else (np.float32, np.int32):
            dims = shape[:rank]
            most = np.array(dims) - (mode == "reflect") if mode != "constant" else 5
            begin, end = (tuple(map(int, rng.integers(0, most, rank))) for _ in range(2))
            x, value = made(dims, dtype), 7 if mode == "constant" and rank % 2 else 0
            options = {"constant_values": value} if mode == "constant" else {}
            expected = np.pad(x, list(zip(begin, end, strict=True)), mode, **options)
            attributes = {"pads_begin": begin, "pads_end": end, "pad_mode": mode}
            if value:
                attributes["pad_value"] = "7.0"
            many.add("Pad", [x], expected, attributes)
    full = {"reflect": (2, 3), "symmetric": (3, 4)}.get(mode, (9, 1))
    x = made((3, 4))
    wide = [(full[0], full[0]), (full[1], full[1])]
    many.add("Pad", [x], np.pad(x, wide, mode), {"pads_begin": full, "pads_end": full,
                                                 "pad_mode": mode})  # fmt: skip
    none = {"pads_begin": (0, 0), "pads_end": (0, 0), "pad_mode": mode}
    many.add("Pad", [x], x, none)
    both = [fixed(1, 0), fixed(0, 2, dtype=np.int64)]
    many.add("Pad", [x, *both], np.pad(x, [(1, 0), (0, 2)], mode), {"pad_mode": mode})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tile(backend: str, tmp_path: Path) -> None:
    many = Many()
    for rank in range(1, 6):
        x = made((2, 3, 1, 4, 2)[:rank], np.float32 if rank % 2 else np.int32)
        for axis, tiles in itertools.product(range(-1, rank), (1, 2, 5)):
            expected = np.concatenate([x] * tiles, axis)
            many.add("Tile", [x], expected, {"axis": axis, "tiles": tiles})
    for dtype in DTYPES:
        x = made((3, 5), dtype)
        many.add("Tile", [x], np.concatenate([x] * 88, 1), {"axis": 1, "tiles": 88})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_shuffle_channels(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = made((2, 12, 6, 4))
    for axis, groups in ((1, (1, 2, 3, 4, 6, 12)), (2, (1, 2, 3, 6)), (3, (2, 4)), (0, (2,))):
        for group in groups:
            size = x.shape[axis]
            seen = x.reshape(*x.shape[:axis], group, size // group, *x.shape[axis + 1 :])
            expected = seen.swapaxes(axis, axis + 1).reshape(x.shape)
            many.add("ShuffleChannels", [x], expected, {"axis": axis, "group": group})
    many.add("ShuffleChannels", [x], x)
    flat = made((2, 6), np.int32)
    expected = flat.reshape(2, 3, 2).swapaxes(1, 2).reshape(2, 6)
    many.add("ShuffleChannels", [flat], expected, {"group": 3})
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reverse_sequence(backend: str, tmp_path: Path) -> None:
    many = Many()
    shape = (3, 4, 5, 2)
    rng = np.random.default_rng(2)
    for rank in (2, 3, 4):
        for batch, time in itertools.permutations(range(rank), 2):
            for dtype in (np.float32, np.int32):
                x = made(shape[:rank])
                lengths = rng.integers(1, shape[time] + 1, shape[batch]).astype(dtype)
                expected = reversed_(x, lengths, batch, time)
                axes = (batch, time) if dtype is np.int32 else (batch - rank, time - rank)
                attributes = {"batch_axis": axes[0], "seq_axis": axes[1]}
                many.add("ReverseSequence", [x, lengths], expected, attributes)
    for dtype in DTYPES:
        x, lengths = made((2, 4), dtype), np.array([4, 2], np.int64)
        many.add("ReverseSequence", [x, lengths], reversed_(x, lengths, 0, 1))
    many.check(backend, tmp_path)


def reversed_(x: np.ndarray, lengths: np.ndarray, batch: int, time: int) -> np.ndarray:
    y = x.copy()
    moved, source = np.moveaxis(y, (batch, time), (0, 1)), np.moveaxis(x, (batch, time), (0, 1))
    for b, length in enumerate(lengths.astype(int)):
        moved[b, :length] = source[b, :length][::-1]
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_squeeze_and_unsqueeze(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = made((1, 3, 1, 2, 1))
    for axes in ((0,), (2, 0), (-1,), (-3, 0, 4)):
        for dtype in (np.int32, np.float32, np.int64):
            many.add("Squeeze", [x, fixed(*axes, dtype=dtype)], np.squeeze(x, axes))
    many.add("Squeeze", [x, scalar(-3)], np.squeeze(x, 2))
    many.add("Squeeze", [x], np.squeeze(x))
    many.add("Squeeze", [made((1,)), scalar(0.0, np.float32)], made(()))
    many.add("Squeeze", [made((1, 1), np.int32)], made((), np.int32))
    y = made((2, 3))
    for axes in ((0,), (1,), (2,), (-1,), (0, 3), (-4, -1), (3, 1, 0)):
        for dtype in (np.int32, np.float32):
            many.add("Unsqueeze", [y, fixed(*axes, dtype=dtype)], np.expand_dims(y, axes))
    many.add("Unsqueeze", [made(()), scalar(0)], made((1,)))
    for dtype in DTYPES:
        many.add("Unsqueeze", [made((2,), dtype), fixed(0)], made((1, 2), dtype))
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_shape(backend: str, tmp_path: Path) -> None:
    many = Many()
    for shape in ((4,), (2, 3, 224, 5), (1, 1, 1, 2, 2)):
        many.add("Shape", [made(shape)], np.array(shape, np.int32))
        many.add("ShapeOf", [made(shape, np.int32)], np.array(shape, np.int64))
    many.check(backend, tmp_path)


def test_axes_computed_at_run_time(tmp_path: Path) -> None:
    many = Many()
    x, axes = made((1, 3, 1)), np.array([2], np.int32)
    many.add("Squeeze", [x, axes], x[:, :, 0])
    many.add("Unsqueeze", [x, axes], x[:, :, None])
    many.check("numpy", tmp_path)


def test_refused(tmp_path: Path) -> None:
    x = made((2, 3, 4))
    refuse(tmp_path, "Permute", [x], [(2, 3, 4)], {"order": "0,1"}, "does not permute")
    refuse(tmp_path, "Permute", [x], [(2, 3, 4)], {"order": "0,1,1"}, "does not permute")
    refuse(tmp_path, "Permute", [x], [(2, 3, 4)], {}, "has no order", ModelFormatError)
    refuse(tmp_path, "Tile", [x], [(2, 3, 4)], {"axis": 3, "tiles": 2}, "axis 3")
    refuse(tmp_path, "Tile", [x], [(2, 3, 4)], {"axis": 1, "tiles": 0}, "0 tiles")
    refuse(tmp_path, "Tile", [x], [(2, 3, 4)], {"axis": 1, "tiles": 2}, "the file says")
    pads = {"pads_begin": (0, 0, 4), "pads_end": (0, 0, 0)}
    refuse(tmp_path, "Pad", [x], [(2, 3, 8)], {**pads, "pad_mode": "reflect"}, "reflects 4 of 4")
    wide = {"pads_begin": (0, 0, 5), "pads_end": (0, 0, 0), "pad_mode": "symmetric"}
    refuse(tmp_path, "Pad", [x], [(2, 3, 9)], wide, "mirrors 5 of 4")
    refuse(tmp_path, "Pad", [x], [(2, 3, 8)], {**pads, "pad_mode": "wrap"}, "not one of")
    refuse(tmp_path, "Pad", [x], [(2, 3, 8)], {**pads, "pads_begin": "0,1"}, "for 3 axes")
    half = {"pads_begin": (0, 0, 4)}
    refuse(tmp_path, "Pad", [x], [(2, 3, 8)], half, "has no pads_end", ModelFormatError)
    negative = {"pads_begin": (0, 0, -1), "pads_end": (0, 0, 0)}
    refuse(tmp_path, "Pad", [x], [(2, 3, 3)], negative, "negative")
    refuse(tmp_path, "ShuffleChannels", [x], [(2, 3, 4)], {"group": 2}, "do not divide")
    refuse(tmp_path, "ShuffleChannels", [x], [(2, 3, 4)], {"group": 0}, "do not divide")
    lengths = np.ones(2, np.int32)
    same = {"batch_axis": 1, "seq_axis": -2}
    refuse(tmp_path, "ReverseSequence", [x, lengths], [(2, 3, 4)], same, "are both 1")
    other = {"batch_axis": 1, "seq_axis": 0}
    refuse(tmp_path, "ReverseSequence", [x, lengths], [(2, 3, 4)], other, "2 lengths for 3")
    refuse(tmp_path, "Squeeze", [x, fixed(0)], [(3, 4)], None, "which is 2 long")
    refuse(tmp_path, "Squeeze", [x, fixed(3)], [(3, 4)], None, "axis 3")
    refuse(tmp_path, "Squeeze", [x, fixed(0.5, dtype=np.float32)], [(3, 4)], None, "integers")
    refuse(tmp_path, "Unsqueeze", [x, fixed(1, -4)], [(2, 1, 1, 3, 4)], None, "twice")
