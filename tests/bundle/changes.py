"""Changes of a bundle's parts: fields, texts, lengths of tables, words of modules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.bundle.mutations import Parts, op

from vknn.bundle import schema
from vknn.bundle.schema import TableRecord

Change = Callable[[Parts], None]


def put(
    record: TableRecord, index: int, field: str, value: object, axis: int | None = None
) -> Change:
    """A change of a field."""

    def change(parts: Parts) -> None:
        column = parts.table(record)[field]
        column[index if axis is None else (index, axis)] = value

    return change


def both(*changes: Change) -> Change:
    def change(parts: Parts) -> None:
        for one in changes:
            one(parts)

    return change


def entry(section: int, field: str, value: int) -> Change:
    def change(parts: Parts) -> None:
        parts.entry(section)[field] = value

    return change


def header(field: str, value: object) -> Change:
    def change(parts: Parts) -> None:
        parts.header[field] = value

    return change


def text(at: int, value: int) -> Change:
    def change(parts: Parts) -> None:
        parts.bodies[schema.STRINGS.section][at] = value

    return change


def grown(record: TableRecord, count: int, change: Change) -> Change:
    """A change behind the growth of a table by records like its first."""

    def grow(parts: Parts) -> None:
        rows = np.repeat(parts.table(record)[:1], count)
        if record is schema.CONSTANT:
            rows["id"] = 1000 + np.arange(count)
        parts.grow(record, rows)
        change(parts)

    return grow


def swapped(old: list[int], new: list[int], module: int = 0) -> Change:
    """A change of an instruction into others of the same length."""
    assert len(old) == len(new)

    def change(parts: Parts) -> None:
        words = parts.words(module)
        [at] = [i for i in range(len(words)) if words[i : i + len(old)].tolist() == old]
        words[at : at + len(old)] = new

    return change


def word(at: int, value: int) -> Change:
    def change(parts: Parts) -> None:
        parts.words()[at] = value

    return change


def shorter(module: int) -> Change:
    """A module without its last instruction, of one word."""

    def change(parts: Parts) -> None:
        parts.table(schema.MODULE)["nbytes"][module] -= 4

    return change


def nothing(words: int) -> list[int]:
    """Instructions that do nothing."""
    return op(0) * words


def long_name(parts: Parts) -> None:
    """A port's name that has no end for a long time."""
    at = len(parts.bodies[schema.STRINGS.section])
    parts.lengthen(schema.STRINGS.section, b"x" * 1024 + b"\0")
    parts.table(schema.PORT)["name"][0] = at


def many_functions(parts: Parts) -> None:
    """A module with a function more than there may be."""
    row = parts.table(schema.MODULE)[0]
    first, size = int(row["offset"]), int(row["nbytes"])
    spirv = parts.bodies[schema.SPIRV.section]
    more = [w for n in range(1022) for w in (*op(54, 2, 64 + n, 0, 3), *op(56))]
    longer = bytes(spirv[first : first + size]) + np.array(more, "<u4").tobytes()
    at = len(spirv)
    parts.lengthen(schema.SPIRV.section, longer)
    parts.table(schema.MODULE)["offset"][0] = at
    parts.table(schema.MODULE)["nbytes"][0] = len(longer)
