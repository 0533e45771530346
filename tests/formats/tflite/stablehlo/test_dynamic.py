"""Slices and updates of slices at starts that are data: clamped, never an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import Fixed, numbers, run, single

from vknn.errors import ShapeError
from vknn.session import Session

Check = Callable[..., None]
STARTS = [(0, 0, 0), (1, 2, 1), (-3, 9, 2), (100, -100, 2**31 - 1), (-(2**31), 1, 1)]
SIZES = [(2, 3, 5), (3, 2, 7), (3, 5, 7), (1, 5, 1)]


def window(
    shape: tuple[int, ...], sizes: tuple[int, ...], starts: tuple[int, ...]
) -> tuple[slice, ...]:
    firsts = [min(max(s, 0), d - n) for d, n, s in zip(shape, sizes, starts, strict=True)]
    return tuple(slice(f, f + n) for f, n in zip(firsts, sizes, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool", "int8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_slices(sizes: tuple[int, ...], dtype: str, check: Check) -> None:
    x = numbers((3, 5, 7), dtype)
    for starts in STARTS:
        given = [np.array(s, np.int32) for s in starts]
        wanted = x[window(x.shape, sizes, starts)].copy()
        options, code = {"slice_sizes": list(sizes)}, "STABLEHLO_DYNAMIC_SLICE"
        check(code, [x, *given], [wanted], options, on_device=dtype in ("float32", "int32"))
        check(code, [x, *map(Fixed, given)], [wanted], options)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool", "int8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_updates(sizes: tuple[int, ...], dtype: str, check: Check) -> None:
    x, update = numbers((3, 5, 7), dtype), numbers(sizes, dtype, 1)
    for starts in STARTS:
        given = [np.array(s, np.int32) for s in starts]
        wanted = x.copy()
        wanted[window(x.shape, sizes, starts)] = update
        code = "STABLEHLO_DYNAMIC_UPDATE_SLICE"
        on_device = dtype in ("float32", "int32")
        check(code, [x, update, *given], [wanted], on_device=on_device)
        check(code, [x, update, *map(Fixed, given)], [wanted])


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "uint8"])
def test_types_of_starts(dtype: str, check: Check) -> None:
    x = numbers((300,), "float32")
    for start in (np.iinfo(dtype).min, 0, 5, np.iinfo(dtype).max):
        first = min(max(int(start), 0), 297)
        given = np.array(start, dtype)
        options = {"slice_sizes": [3]}
        check("STABLEHLO_DYNAMIC_SLICE", [x, given], [x[first : first + 3]], options)


def test_another_start_builds_no_other_graph(tmp_path: Path, backend: str) -> None:
    x = numbers((5, 7), "float32")
    starts = [np.array(1, np.int32), np.array(2, np.int32)]
    net, feeds = single("STABLEHLO_DYNAMIC_UPDATE_SLICE", [x, x[:2, :3], *starts],
                        [((5, 7), "float32")])  # fmt: skip
    run(tmp_path / "m.tflite", backend, net.file(), feeds)
    with Session(tmp_path / "m.tflite", device="numpy") as session:
        session.run(feeds)
        first = session._engine.latest
        session.run(feeds | {"x2": np.array(3, np.int32)})
        assert session._engine.latest is first


def test_of_nothing_takes_no_room(check: Check) -> None:
    x, start = np.zeros((1 << 30, 0), np.float32), np.array(5, np.int32)
    options = {"slice_sizes": [1 << 29, 0]}
    check("STABLEHLO_DYNAMIC_SLICE", [x, start, start], [x[: 1 << 29]], options)


def test_what_does_not_fit(tmp_path: Path) -> None:
    x, start = numbers((3, 5), "float32"), np.array(0, np.int32)
    for sizes in ([4, 5], [3], [-1, 5]):
        net, feeds = single("STABLEHLO_DYNAMIC_SLICE", [x, start, start], [((3, 5), "float32")],
                            {"slice_sizes": sizes})  # fmt: skip
        with pytest.raises(ShapeError, match=r"DYNAMIC_SLICE.*has a window"):
            run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
    for update, starts, message in (
        (numbers((4, 5), "float32"), [start, start], "has a window"),
        (x, [start], "has a window"),
        (numbers((3, 5), "int32"), [start, start], "writes"),
        (x[:1], [np.float32(0), start], "indices of"),
        (x[:1], [np.int32([0, 1]), start], "not one number"),
    ):
        net, feeds = single("STABLEHLO_DYNAMIC_UPDATE_SLICE", [x, update, *starts],
                            [((3, 5), "float32")])  # fmt: skip
        with pytest.raises(ShapeError, match=message):
            run(tmp_path / "m.tflite", "numpy", net.file(), feeds)
