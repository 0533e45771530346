"""Sources and models of the tests of batch jobs on Ray."""

from __future__ import annotations

import io
import os
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from PIL import Image

from vknn import scale

SIZE = 8
#: SwiftShader as tools/prepare.py unpacks it: the second "card" beside llvmpipe.
SWIFTSHADER = (
    Path(__file__).resolve().parents[2] / ".cache" / "swiftshader" / "vk_swiftshader_icd.json"
)

#: A network with one layer of the test's own, between an input of 8 numbers and its sum.
PARAM = """7767517
3 3
Input    data 0 1 data 0=8
{layer}  own  1 1 data own
Noop     out  1 1 own out
"""

#: A layer that takes a moment, so that all workers get records.
SLOW = """
import time
import numpy as np
import vknn

def compute(arrays, weights, options):
    time.sleep(0.03)
    return arrays[0] * np.float32(2)

vknn.register_layer("ncnn", "Slow", shape=lambda s, o: s[0], compute=compute)
"""
#: One kind of device: answers are then equal bit for bit.
LLVMPIPE = {"device": "llvmpipe", "size": (8, 8)}


def picture(number: int, format: str = "PNG") -> bytes:
    """A picture of 8 x 8 pixels, another one for each number."""
    pixels = np.random.default_rng(number).integers(0, 255, (SIZE, SIZE, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format)
    return file.getvalue()


def write_pictures(folder: Path, count: int, broken: tuple[int, ...] = ()) -> Path:
    """A folder of pictures; those of the numbers that are broken are none."""
    folder.mkdir()
    for number in range(count):
        data = b"no picture" if number in broken else picture(number)
        (folder / f"{number:04d}.png").write_bytes(data)
    return folder


def write_table(path: Path, count: int, broken: tuple[int, ...] = ()) -> Path:
    """A Parquet file with pictures, their ids and widths; two row groups."""
    data = [b"no picture" if n in broken else picture(n) for n in range(count)]
    table = pa.table({"url": [f"u{n}" for n in range(count)], "image": data, "width": range(count)})
    pq.write_table(table, path, row_group_size=max(1, count // 2))
    return path


def write_numbers(path: Path, values: list[float], files: int = 1) -> Path:
    """Parquet files with a column of 8 equal numbers a row, and an id."""
    path.mkdir()
    per_file = -(-len(values) // files)
    for number in range(files):
        some = values[number * per_file : (number + 1) * per_file]
        ids = range(number * per_file, number * per_file + len(some))
        rows = pa.array([np.full(8, v, np.float32) for v in some], pa.list_(pa.float32()))
        pq.write_table(pa.table({"id": ids, "data": rows}), path / f"{number}.parquet")
    return path


def write_tar(path: Path, count: int) -> Path:
    """A WebDataset of pictures and their numbers."""
    with tarfile.open(path, "w") as archive:
        for number in range(count):
            for ending, data in (("png", picture(number)), ("cls", str(number).encode())):
                info = tarfile.TarInfo(f"{path.stem}/{number:03d}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return path


def write_model(folder: Path, layer: str, code: str) -> tuple[Path, Path]:
    """A model with one layer of one's own, and the Python file that registers it."""
    model = folder / f"{layer.lower()}.param"
    model.write_text(PARAM.format(layer=layer))
    model.with_suffix(".bin").write_bytes(b"")
    layers = folder / f"{layer.lower()}.py"
    layers.write_text(code)
    return model, layers


def answers(folder: Path) -> pa.Table:
    """All answers of a folder in one table."""
    return pa.concat_tables([pq.read_table(p) for p in sorted(folder.glob("*.parquet"))])


def by_id(table: pa.Table, id_column: str, names: list[str]) -> dict[Any, Any]:
    """Rows by their ids, with what they hold bit for bit. Every id occurs once."""
    found = {}
    for row in range(table.num_rows):
        cells = [table.column(name)[row] for name in names]
        found[table.column(id_column)[row].as_py()] = tuple(_bits(cell) for cell in cells)
    assert len(found) == table.num_rows
    return found


def _bits(cell: Any) -> Any:
    if isinstance(cell, pa.ExtensionScalar):
        return None if not cell.is_valid else np.asarray(cell.value.as_py(), np.float32).tobytes()
    value = cell.as_py()
    return np.asarray(value, np.float32).tobytes() if isinstance(value, list) else value


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder; outputs are flat lists."""
    table = answers(folder)
    names = [n for n in table.column_names if n != "out"]
    found = table.select(names).to_pylist()
    for row, cell in zip(found, table.column("out"), strict=True):
        storage = cell.value if isinstance(cell, pa.ExtensionScalar) else cell
        row["out"] = storage.as_py() if cell.is_valid else None
    return found


def assert_same(ray_folder: Path, local_folder: Path, id_column: str, names: list[str]) -> None:
    """Columns, types and rows of two jobs are the same, apart from the names of batches."""
    found, expected = answers(ray_folder), answers(local_folder)
    assert found.schema.equals(expected.schema), (found.schema, expected.schema)
    names = [*names, "device", "error"]
    assert by_id(found, id_column, names) == by_id(expected, id_column, names)


def processes(folder: Path) -> dict[str, set[str]]:
    """The processes that computed on each device, which names of batches begin with."""
    found = defaultdict(set)
    for row in rows(folder):
        found[row["device"]].add(row["batch"].split("-")[0])
    return found


def check_devices(job: dict[str, Any], per_device: int) -> None:
    """A job whose workers share both devices evenly."""
    report = scale.run(**job, device="vulkan", per_device=per_device)
    found = processes(job["output"])
    assert {name: len(own) for name, own in found.items()} == dict.fromkeys(found, per_device)
    assert len(found) == 2
    assert set(report.devices) == set(found)
    assert all(name.startswith("uuid:") for name in found)
    assert report.rows == pa.dataset.dataset(job["source"]).count_rows()


class more:
    """Block in which the cluster has a further node."""

    def __init__(self, cluster: Any, **options: Any) -> None:
        self._cluster, self._options = cluster, options

    def __enter__(self) -> None:
        os.environ["VK_DRIVER_FILES"] = self._options.pop("drivers", os.environ["VK_DRIVER_FILES"])
        self._node = self._cluster.add_node(object_store_memory=80 << 20, **self._options)

    def __exit__(self, *_: object) -> None:
        self._cluster.remove_node(self._node)
