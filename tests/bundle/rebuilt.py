"""Bundles for tests: small ones, and changed ones whose sums are right again."""

from __future__ import annotations

import functools
import hashlib
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vknn import Session, export
from vknn.bundle import schema
from vknn.bundle.reader import SECTIONS, Bundle

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "tools" / "demo_model" / "digits.param"
_SIZES = {record.section: record.dtype.itemsize for record in schema.RECORDS}


@functools.cache
def digits(*targets: str) -> bytes:
    """The demo model as a bundle for these targets, without an example."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.vkb"
        export(DIGITS, path, targets=targets, example=False)
        return path.read_bytes()


@functools.cache
def relu() -> bytes:
    """A bundle of one step, without an example: "data", float32 of 2 x 3 x 4, becomes "y"."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layers = "7767517\n2 2\nInput data 0 1 data\nReLU relu 1 1 data y\n"
        (folder / "relu.param").write_text(layers)
        (folder / "relu.bin").write_bytes(b"")
        path = folder / "relu.vkb"
        export(folder / "relu.param", path, shapes={"data": (2, 3, 4)}, example=False)
        return path.read_bytes()


def rebuilt(bundle: Bundle, changed: Mapping[str, bytes]) -> bytes:
    """The file of a bundle with other bytes in some sections, and all sums right."""
    bodies = {
        kind: changed.get(name, bundle.sections[name].tobytes()) for kind, name in SECTIONS.items()
    }
    bodies = {kind: body for kind, body in sorted(bodies.items()) if body}
    # The data come last, at their own border.
    bodies[schema.DATA.section] = bodies.pop(schema.DATA.section, b"")
    at = schema.HEADER.dtype.itemsize + len(bodies) * schema.SECTION.dtype.itemsize
    entries, rest = [], b""
    start = at
    for kind, body in bodies.items():
        is_data = kind == schema.DATA.section
        alignment = schema.DATA_ALIGNMENT if is_data else schema.ALIGNMENT
        offset = -(-at // alignment) * alignment
        rest += bytes(offset - at) + body
        at = offset + len(body)
        size = _SIZES.get(kind, 1)
        crc = 0 if is_data else zlib.crc32(body)
        entries.append((kind, crc, offset, len(body), size, len(body) // size))
    table = np.array(entries, schema.SECTION.dtype).tobytes()
    assert start == schema.HEADER.dtype.itemsize + len(table)
    header = np.zeros(1, schema.HEADER.dtype)
    header["magic"], header["version"] = np.frombuffer(schema.MAGIC, np.uint8), schema.VERSION
    header["header_bytes"], header["file_bytes"] = header.nbytes, at
    header["sections"], header["table_crc"] = len(entries), zlib.crc32(table)
    data = bodies[schema.DATA.section]
    header["data_sha256"] = np.frombuffer(hashlib.sha256(data).digest(), np.uint8)
    whole = header.tobytes() + table + rest
    header["sha256"] = np.frombuffer(hashlib.sha256(whole).digest(), np.uint8)
    return header.tobytes() + table + rest


def with_field(
    bundle: Bundle, record: schema.TableRecord, name: str, value: object, at: int = 0
) -> bytes:
    """The file with a field of record ``at`` of a kind set."""
    rows = bundle.tables[record].copy()
    rows[at][name] = value
    return rebuilt(bundle, {record.name: rows.tobytes()})


def with_example(
    bundle: Bundle,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    absolute: float = 1e-6,
    relative: float = 1e-4,
) -> bytes:
    """The file with an example for each of its plans, in place of any other."""
    plans = bundle.tables[schema.PLAN].copy()
    blobs = [*bundle.tables[schema.BLOB].tolist()]
    data, rows = bundle.sections["data"].tobytes(), []
    for plan, row in zip(bundle.plans, plans, strict=True):
        row["first_examples"] = len(rows)
        for place, port in enumerate(plan.ports):
            arrays = inputs if port.direction is schema.Direction.INPUT else outputs
            body = arrays[port.name].reshape(port.shape).astype(port.dtype).tobytes()
            data += bytes(-len(data) % schema.BLOB_ALIGNMENT)
            blobs.append((len(data), len(body), zlib.crc32(body), 0))
            data += body
            rows.append((place, len(blobs) - 1, absolute, relative))
        row["examples"] = len(rows) - int(row["first_examples"])
    return rebuilt(
        bundle,
        {
            "plan": plans.tobytes(),
            "blob": np.array(blobs, schema.BLOB.dtype).tobytes(),
            "example": np.array(rows, schema.EXAMPLE.dtype).tobytes(),
            "data": data,
        },
    )


def with_labels(bundle: Bundle, texts: Sequence[str]) -> bytes:
    """The file with labels for the outputs of its plans."""
    strings, rows = bundle.sections["strings"].tobytes(), []
    for text in texts:
        rows.append((len(strings), 0))
        strings += text.encode() + b"\0"
    ports = bundle.tables[schema.PORT].copy()
    outputs = ports["direction"] == schema.Direction.OUTPUT
    ports["labels"][outputs] = len(texts)
    labels = np.array(rows, schema.LABEL.dtype).tobytes()
    return rebuilt(bundle, {"strings": strings, "label": labels, "port": ports.tobytes()})


def digits_with_example(folder: Path) -> Path:
    """The demo model for two targets, with the reference's answer as its example."""
    path = folder / "net.vkb"
    plain = Bundle.of(digits("generic", "llvmpipe"))
    [port] = plain.plans[0].inputs
    image = np.random.default_rng(3).random((1, 8, 8), np.float32)
    with Session(DIGITS, device="cpu") as session:
        answer = session.run({"image": image})
    path.write_bytes(with_example(plain, {"image": image.reshape(port.shape)}, answer))
    return path


def one_step() -> tuple[np.ndarray, np.ndarray]:
    """An input of the bundle of one step, and its answer."""
    [port] = Bundle.of(relu()).plans[0].inputs
    data = np.random.default_rng(0).standard_normal(port.shape).astype(np.float32)
    return data, np.maximum(data, 0)
