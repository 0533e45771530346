"""Small jobs for the tests: networks, pictures, tables, and the answers of a folder."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, model
from tests.small_model import write_small_model

from vknn import scale
from vknn.pictures import ImageOptions, open_picture, picture_array

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).resolve().parents[2]
#: Squares of four numbers.
SQUARES = """7767517
2 2
Input   data 0 1 data 0=4
UnaryOp out  1 1 data out 0=4
"""
#: Squares of as many numbers as come.
ANY_SQUARES = SQUARES.replace(" 0=4\nU", "\nU")
#: Layer Probe gives its input back; what it does at some values the tests say.
PROBE = """7767517
2 2
Input data 0 1 data 0=4
Probe out  1 1 data out
"""
#: Options of jobs that need no device.
HOST: dict[str, Any] = {"device": "numpy", "engine": "local"}


def elementwise(statements: str) -> str:
    """A shader that computes element ``i`` of y of that of x."""
    return f"""
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
OUTPUT1F(1, y);
layout(push_constant) uniform P {{ int count; }} p;
void main() {{
    int i = linear_lane();
    if (i >= p.count) return;
    {statements}
}}
"""


def write_net(folder: Path, text: str = SQUARES) -> Path:
    """Writes net.param without weights and gives its path."""
    path = folder / "net.param"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes(b"")
    return path


def fixed_net(folder: Path, count: int) -> Path:
    """Writes a network that takes so many numbers, no more and no fewer; y are their magnitudes."""
    path = folder / f"fixed{count}.mlmodel"
    made = model([layer("unary", "x", "y", type="ABS")], {"x": (count,)})
    path.write_bytes(made.SerializeToString())
    return path


def picture_net(folder: Path) -> Path:
    """Writes a network that takes pictures of 8 x 8 pixels and gives its path."""
    return write_small_model(folder)


def png(seed: int = 0, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> bytes:
    """A picture of random colours as PNG."""
    from PIL import Image

    bands = len(Image.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], bands), np.uint8)
    shape = values if bands > 1 else values[..., 0]
    file = io.BytesIO()
    Image.fromarray(shape, mode).save(file, "png")
    return file.getvalue()


def read_picture(path: Path, size: tuple[int, int] | None = None) -> np.ndarray:
    """The array of a picture, as `vknn run` makes it for a network of 3 x 8 x 8."""
    made, _ = picture_array(open_picture(path), (3, 8, 8), ImageOptions(size=size))
    return made


def pictures(folder: Path, count: int) -> list[Path]:
    """Writes so many pictures and gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [folder / f"{number:04d}.png" for number in range(count)]
    for number, path in enumerate(found):
        path.write_bytes(png(number))
    return found


def vectors(count: int, seed: int = 0) -> np.ndarray:
    """So many rows of four numbers; the first number of each is the row's own."""
    values = np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)
    values[:, 0] = np.arange(count)
    return values


def table(path: Path, values: np.ndarray, ids: Sequence[Any] | None = None, **more: Any) -> Path:
    """Writes a Parquet file with columns ``id`` and ``data`` and others."""
    names = [f"r{number}" for number in range(len(values))] if ids is None else list(ids)
    data = pa.array(list(values), pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": names, "data": data, **more}), path)
    return path


def answers(folder: Path | str) -> list[dict[str, Any]]:
    """All rows of a job's answers, tensors as lists."""
    found: list[dict[str, Any]] = []
    for path in sorted(Path(folder).glob("*.parquet")):
        found += rows_of(pq.read_table(path))
    return found


def by_id(folder: Path | str, name: str = "id") -> dict[Any, dict[str, Any]]:
    """The rows by id, each of which there must be once."""
    rows = answers(folder)
    found = {row[name]: row for row in rows}
    assert len(found) == len(rows), "an id has two rows"
    return found


def rows_of(found: Any) -> list[dict[str, Any]]:
    """Rows of a table; tensors as arrays."""
    columns: dict[str, list[Any]] = {}
    for name in found.column_names:
        column = found.column(name)
        values = [value.as_py() for value in column]
        if isinstance(column.type, pa.FixedShapeTensorType):
            shape = column.type.shape
            storage = [s for chunk in column.chunks for s in chunk.storage.to_pylist()]
            values = [None if v is None else np.reshape(v, shape) for v in storage]
        columns[name] = values
    return [{n: v[i] for n, v in columns.items()} for i in range(found.num_rows)]


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what differs from run to run, comparable."""
    left = {name: value for name, value in row.items() if name not in ("batch", "device")}
    return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in left.items()}


def same(one: Path, other: Path, name: str = "id") -> bool:
    """Whether two folders hold the same answers."""
    a, b = by_id(one, name), by_id(other, name)
    return a.keys() == b.keys() and all(plain(a[key]) == plain(b[key]) for key in a)


def job(source: Any, model: Path, output: Path, **options: Any) -> scale.Report:
    """A job without a device."""
    return scale.run(source, model, output, **{**HOST, **options})


def document(folder: Path) -> dict[str, Any]:
    """What job.json says."""
    found: dict[str, Any] = json.loads((folder / "_vknn" / "job.json").read_text())
    return found


def command(*arguments: object) -> list[str]:
    """The words of ``vknn batch`` as a process."""
    return [sys.executable, "-m", "vknn", "batch", *map(str, arguments)]


def batch(
    *arguments: object, device: str = "numpy", **more: Any
) -> subprocess.CompletedProcess[str]:
    """``vknn batch`` without Ray, in a process of its own."""
    return subprocess.run(
        command(*arguments, "--device", device, "--engine", "local"),
        capture_output=True, text=True, timeout=120,
        env={**os.environ, **more.pop("environment", {})}, **more,
    )  # fmt: skip
