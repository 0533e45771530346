"""Bundles taken apart, changed and joined again with right sums; and one that has everything."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.bundle import schema
from vknn.bundle.schema import NONE, TableRecord
from vknn.bundle.tables import Tables
from vknn.bundle.writer import write

HEADER_BYTES, ENTRY = schema.HEADER.dtype.itemsize, schema.SECTION.dtype


@dataclass
class Parts:
    """A bundle's header and sections, to be changed. ``bodies``: each section's bytes by number."""

    header: np.ndarray
    entries: np.ndarray
    bodies: dict[int, bytearray]

    @classmethod
    def of(cls, data: bytes) -> Parts:
        header = np.frombuffer(data, schema.HEADER.dtype, 1).copy()
        entries = np.frombuffer(data, ENTRY, int(header["sections"][0]), HEADER_BYTES).copy()
        bodies = {
            int(e["kind"]): bytearray(data[int(e["offset"]) :][: int(e["nbytes"])]) for e in entries
        }
        return cls(header, entries, bodies)

    def table(self, record: TableRecord) -> np.ndarray:
        """The records of a kind; what is written to them is in the bundle."""
        return np.frombuffer(self.bodies[record.section], record.dtype)

    def entry(self, section: int) -> np.ndarray:
        """The entry of a section in the section table, an array of one; may be written to."""
        [found] = np.flatnonzero(self.entries["kind"] == section)
        return self.entries[found : found + 1]

    def words(self, module: int = 0) -> np.ndarray:
        """The words of a module; may be written to."""
        row = self.table(schema.MODULE)[module]
        spirv = np.frombuffer(self.bodies[schema.SPIRV.section], "<u4")
        return spirv[int(row["offset"]) // 4 :][: int(row["nbytes"]) // 4]

    def without(self, section: int) -> None:
        """Removal of a section."""
        self.entries = self.entries[self.entries["kind"] != section]
        self.header["sections"] -= 1
        del self.bodies[section]

    def grow(self, record: TableRecord, rows: np.ndarray) -> None:
        """Records added behind those of a kind; all sections move."""
        self.lengthen(record.section, rows.tobytes(), record.dtype.itemsize)

    def lengthen(self, section: int, more: bytes, record_bytes: int = 1) -> None:
        """Bytes added behind those of a section; all sections move."""
        self.bodies[section] += more
        at = HEADER_BYTES + self.entries.nbytes
        self.entries["nbytes"] = [len(body) for body in self.bodies.values()]
        count = len(self.bodies[section]) // record_bytes
        self.entries["count"][self.entries["kind"] == section] = count
        for entry, kind in zip(self.entries, self.bodies, strict=True):
            alignment = schema.DATA_ALIGNMENT if kind == schema.DATA.section else schema.ALIGNMENT
            entry["offset"] = -(-at // alignment) * alignment
            at = int(entry["offset"] + entry["nbytes"])
        self.header["file_bytes"] = at

    def joined(self, room: int | None = None) -> bytes:
        """The file with right sums: sections where their entries say, as far as they fit.

        ``room``: bytes that are made of it; None: all that the header says.
        """
        entries, header = self.entries.copy(), self.header.copy()
        out = bytearray(int(header["file_bytes"][0]) if room is None else room)
        # From the last one on: where sections overlap, those in front stay whole.
        for entry, (kind, body) in reversed([*zip(entries, self.bodies.items(), strict=True)]):
            at = int(entry["offset"])
            if at + len(body) <= len(out):
                out[at : at + len(body)] = body
            if kind != schema.DATA.section:
                entry["crc"] = zlib.crc32(body)
        header["table_crc"] = zlib.crc32(entries.tobytes())
        header["sha256"] = 0
        front = header.tobytes() + entries.tobytes()
        out[: len(front)] = front
        out[32:64] = hashlib.sha256(out).digest()
        return bytes(out)


# ---- Shaders, word by word (SPIR-V specification, 3.42) ----


def op(code: int, *operands: int) -> list[int]:
    """An instruction."""
    return [len(operands) + 1 << 16 | code, *operands]


MAIN = (0x6E69616D, 0)
IMPORT = op(11, 59, *np.frombuffer(b"GLSL.std.450\0\0\0\0", "<u4").tolist())
#: Functions, and the last one's call.
FUNCTIONS = [op(54, 2, id_, 0, 3) for id_ in (1, 60, 58)]
CALL = op(57, 2, 56, 60)


def shader(*declarations: Sequence[int], capabilities: Sequence[int] = (1,)) -> bytes:
    """A module that does nothing: main is 1, void 2, its type 3; ids below 56 are free.

    Main calls 58, which calls 60.
    """
    parts = [
        *(op(17, c) for c in capabilities), IMPORT, op(14, 0, 1), op(15, 5, 1, *MAIN),
        *declarations,
        FUNCTIONS[0], op(248, 63), op(57, 2, 62, 58), op(253), op(56),
        FUNCTIONS[1], op(248, 61), op(253), op(56),
        FUNCTIONS[2], op(248, 57), CALL, op(253), op(56),
    ]  # fmt: skip
    words = [0x07230203, 0x10300, 0, 64, 0, *(word for part in parts for word in part)]
    return np.array(words, "<u4").tobytes()


def rich_shader() -> bytes:
    """All four kinds of what pipelines give to a module, with a size by constants 0, 1 and 2."""
    decorations = [
        *(op(71, 10 + i, 1, i) for i in range(3)),  # SpecId
        op(71, 13, 11, 25),  # WorkgroupSize
        *(op(72, 20, member, 35, offset) for member, offset in enumerate((0, 16, 32))),  # Offset
        op(71, 20, 2), op(71, 19, 6, 4),  # Block, ArrayStride
        *(op(71, 40 + i, 34, 0) for i in range(4)), *(op(71, 40 + i, 33, i) for i in range(4)),
    ]  # fmt: skip
    types = [
        op(19, 2), op(33, 3, 2), op(21, 4, 32, 0), op(22, 5, 32), op(23, 6, 4, 3), op(23, 7, 5, 4),
        *(op(50, 4, 10 + i, 1) for i in range(3)), op(51, 6, 13, 10, 11, 12),
        op(43, 4, 18, 2), op(28, 19, 4, 18), op(30, 20, 4, 7, 19), op(32, 21, 9, 20),
        op(59, 21, 22, 9),  # push constants: a number, a vector, an array of two
        op(29, 23, 5), op(30, 24, 23), op(32, 25, 12, 24),
        op(25, 26, 5, 5, 0, 0, 0, 1, 0), op(27, 27, 26), op(32, 28, 0, 27),
        op(25, 29, 5, 5, 0, 0, 0, 2, 3), op(32, 30, 0, 29),
        op(59, 25, 40, 12), op(59, 25, 41, 12), op(59, 28, 42, 0), op(59, 30, 43, 0),
    ]  # fmt: skip
    return shader(*decorations, *types, capabilities=(1, 46, 47))


def plain_shader() -> bytes:
    """A storage buffer, workgroups of 64 by LocalSize, nothing else."""
    return shader(
        op(16, 1, 17, 64, 1, 1), op(71, 40, 34, 0), op(71, 40, 33, 0), op(19, 2), op(33, 3, 2),
        op(22, 5, 32), op(29, 23, 5), op(30, 24, 23), op(32, 25, 12, 24), op(59, 25, 40, 12),
        op(22, 6, 32), op(32, 7, 1, 6), op(59, 7, 41, 1),
    )  # fmt: skip


# ---- A bundle with a record of every kind ----


def row(record: TableRecord, **values: object) -> tuple[object, ...]:
    """A record; fields that are not named are 0."""
    blank = {f.name: 0 if f.count == 1 else [0] * f.count for f in record.fields}
    assert values.keys() <= blank.keys(), values.keys() - blank.keys()
    return tuple((blank | values).values())


def rich_tables() -> Tables:
    """Two plans, which share pipelines, over every kind of buffer, step, port and so on."""
    tables = Tables()
    weight = tables.blob(np.arange(64, dtype=np.float32))
    constants = [(0, 8), (1, 4), (2, 1), (99, 7)]
    kinds = [(7, 1), (7, 2), (4, 1), (5, 2)]
    rich = tables.module(rich_shader(), 512)
    plain = tables.module(plain_shader(), 0)
    pipelines = (
        tables.pipeline("rich", rich, constants, kinds, 40, True),
        tables.pipeline("plain", plain, [(0, 64)], [(7, 3)], 0, False),
    )
    for target in ("first", "second"):
        _add_plan(tables, target, pipelines, weight)
    return tables


def _add_plan(tables: Tables, target: str, pipelines: tuple[int, int], weight: int) -> None:
    text, word = tables.string, np.float32
    buffers = [
        ("x", 0, 0, 96, NONE), ("state in", 0, 256, 64, NONE), ("y", 1, 0, 96, NONE),
        ("state out", 1, 256, 64, NONE), ("count", 1, 512, 16, NONE), ("mid", 2, 0, 256, NONE),
        ("more", 2, 128, 256, NONE), ("weight", 3, 0, 256, weight), ("texels", 2, 512, 64, NONE),
    ]  # fmt: skip
    bindings = [[(7, 0), (5, 0), (1, 109), (8, 100)], [(6, 0)]]
    first = [tables.add(schema.BINDING, group) for group in bindings]
    push = tables.push(np.arange(10, dtype=np.uint32).tobytes())
    common = {"label": text("conv1, relu1"), "op": text("Conv"), "flops": 1000, "traffic": 512}
    steps = [
        row(schema.STEP, kind=2, target=5, word=7, **common),
        row(schema.STEP, kind=3),
        row(schema.STEP, kind=0, pipeline=pipelines[0], first_bindings=first[0][0], bindings=4,
            push=push, groups=[3, 2, 1], **common),
        row(schema.STEP, kind=3),
        row(schema.STEP, kind=1, source=5, target=6, source_offset=0, target_offset=192, nbytes=64,
            **common),
        row(schema.STEP, kind=1, source=7, target=2, source_offset=160, nbytes=96, **common),
        row(schema.STEP, kind=0, pipeline=pipelines[1], first_bindings=first[1][0], bindings=1,
            groups=[1, 1, 1], **common),
    ]  # fmt: skip
    labels = tables.add(schema.LABEL, [(text(name), 0) for name in ("cat", "dog", "Käse 猫 🐱")])
    port = {"dims": [2, 3, 1, 1, 1, 1, 1, 1], "rank": 2, "count": NONE}
    ports = [
        row(schema.PORT, name=text("x"), type=0, buffer=0, layout=text("NC"), **port),
        row(schema.PORT, name=text("picture"), type=3, buffer=0, picture=text("RGB"), quantized=1,
            scale=word(0.5), zero_point=-3, layout=text("NHWC"), rank=4, count=NONE,
            dims=[1, 4, 4, 3, 1, 1, 1, 1]),
        row(schema.PORT, name=text("y"), direction=1, type=0, buffer=2, first_labels=labels[0],
            labels=labels[1], rank=2, count=4, open_axis=1, dims=[1, 24, 1, 1, 1, 1, 1, 1]),
    ]  # fmt: skip
    state = tables.blob(np.full(16, 3, word))
    states = [row(schema.STATE, name=text("h"), input=1, output=3, blob=state, nbytes=64)]
    asked = tables.blob(np.arange(6, dtype=word))
    answer = tables.blob(np.arange(5, dtype=word))
    examples = [
        row(schema.EXAMPLE, port=0, blob=asked),
        row(schema.EXAMPLE, port=2, blob=answer, absolute=word(1e-3), relative=word(1e-3)),
    ]
    matrices = [row(schema.MATRIX, m=16, n=16, k=16, sums=1)]
    tables.add(
        schema.PLAN,
        [
            (
                text("net"), text(target), text("x=2,3"), text("fp32"),
                *tables.add(schema.BUFFER, [(text(n), *rest, 0) for n, *rest in buffers]),
                *tables.add(schema.STEP, steps),
                *tables.add(schema.SUBMIT, [(4, 0), (7, 0)]),
                *tables.add(schema.PORT, ports), *tables.add(schema.STATE, states),
                *tables.add(schema.EXAMPLE, examples), *tables.add(schema.MATRIX, matrices),
                [512, 768, 768], 0x700, 256, 5000, 1 << 22 | 1 << 12, 64, [64, 4, 1], 64, [3, 2, 1],
                512, 40, 2, 1, 1, 128, 256, 32, 0,
            )
        ],
    )  # fmt: skip


def rich_bundle(folder: Path) -> bytes:
    """The bytes of a bundle with a record of every kind."""
    path = folder / "rich.vkb"
    write(path, rich_tables(), b'{"made": "for tests"}')
    return path.read_bytes()


def changed(data: bytes, change: Callable[[Parts], None]) -> bytes:
    """A bundle with a change to its parts, and right sums."""
    parts = Parts.of(data)
    change(parts)
    return parts.joined()
