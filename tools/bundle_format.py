#!/usr/bin/env python3
"""Generator of runner/vkb.h and of the table in docs/bundle.md from the schema of bundles.

tools/bundle_format.py           # writes both
tools/bundle_format.py --check   # exit status 1 where one of them is not up to date
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402

from vknn.bundle import needs, schema  # noqa: E402
from vknn.bundle.schema import PortElement  # noqa: E402
from vknn.runtime.recorder import VK_FORMATS  # noqa: E402

HEADER, PAGE = ROOT / "runner" / "vkb.h", ROOT / "docs" / "bundle.md"
BEGIN, END = "<!-- begin: tools/bundle_format.py -->", "<!-- end -->"
_TYPES = {"u8": "uint8_t", "u32": "uint32_t", "i32": "int32_t", "f32": "float", "u64": "uint64_t"}
_BYTES = {"u8": 1, "u32": 4, "i32": 4, "f32": 4, "u64": 8}
_RECORDS = (schema.HEADER, schema.SECTION, *schema.RECORDS)


def header() -> str:
    """The C header: sections' numbers, enumerations and a struct a record."""
    return "\n".join(_header_lines()) + "\n"


def _header_lines() -> Iterator[str]:
    yield (
        "/* Records of a bundle, format version "
        + f"{schema.VERSION}. Made by tools/bundle_format.py"
    )
    yield " * from src/vknn/bundle/schema.py; docs/bundle.md explains them. */"
    yield "#ifndef VKB_H\n#define VKB_H\n\n#include <stdint.h>\n"
    magic = ", ".join(f"0x{byte:02x}" for byte in schema.MAGIC)
    yield f"#define VKB_MAGIC {{{magic}}}"
    yield f"#define VKB_VERSION {schema.VERSION}u"
    yield f"#define VKB_NONE 0x{schema.NONE:x}u"
    yield f"#define VKB_ALIGNMENT {schema.ALIGNMENT}u"
    yield f"#define VKB_DATA_ALIGNMENT {schema.DATA_ALIGNMENT}u"
    yield f"#define VKB_BLOB_ALIGNMENT {schema.BLOB_ALIGNMENT}u"
    yield f"#define VKB_MOST_AXES {schema.MOST_AXES}\n"
    for part in (*schema.RECORDS, *schema.BLOBS):
        yield f"#define VKB_SECTION_{part.name.upper()} {part.section}u"
    yield f"#define VKB_SECTIONS {1 + max(p.section for p in (*schema.RECORDS, *schema.BLOBS))}u\n"
    for terms in (schema.StepKind, schema.BufferRole, schema.PortElement, schema.Direction):
        for term in terms:
            prefix = {"StepKind": "STEP", "BufferRole": "ROLE", "PortElement": "TYPE"}
            name = prefix.get(terms.__name__, terms.__name__.upper())
            yield f"#define VKB_{name}_{term.name} {term.value}u"
        yield ""
    for feature in schema.Feature:
        yield f"#define VKB_FEATURE_{feature.name} 0x{feature.value:x}u"
    yield ""
    for record in _RECORDS:
        yield f"/* {record.text}. */\ntypedef struct vkb_{record.name} {{"
        for field in record.fields:
            array = f"[{field.count}]" if field.count > 1 else ""
            yield f"    {_TYPES[field.kind]} {field.name}{array}; /* {field.text} */"
        name, size = f"vkb_{record.name}", record.dtype.itemsize
        yield f"}} {name};"
        yield f"typedef char {name}_is_packed[sizeof({name}) == {size} ? 1 : -1];\n"
    yield from _lists()
    yield "#endif"


def _lists() -> Iterator[str]:
    """Macros that go through kinds of sections, fields and numbers, for checks of each."""
    many = {record.name: _many(record.name) for record in schema.RECORDS}
    yield "/* The sections of records: X(plural, record, RECORD). */"
    yield _list("TABLES", [(many[r.name], r.name, r.name.upper()) for r in schema.RECORDS])
    yield "/* The sections of bytes: X(section, SECTION). */"
    yield _list("BYTES", [(blob.name, blob.name.upper()) for blob in schema.BLOBS])
    fields = [(record, field) for record in schema.RECORDS for field in record.fields]
    texts = [(r.name, many[r.name], f.name) for r, f in fields if f.text.startswith("String")]
    yield "/* Fields that are the offset of a text: X(record, plural, field). */"
    yield _list("TEXTS", texts)
    yield "/* Records with reserved bytes: X(record, plural). */"
    yield _list("RESERVED", [(r.name, many[r.name]) for r, f in fields if f.name == "reserved"])
    yield "/* Ranges, from first_THESE on so many as THESE: X(record, plural, these, this). */"
    of = {plural: name for name, plural in many.items()}
    ranges = [(r.name, f.name.removeprefix("first_")) for r, f in fields if "first_" in f.name]
    yield _list("RANGES", [(name, many[name], these, of[these]) for name, these in ranges])
    yield "/* Tables of which each plan has a range, one behind the other: X(plural, record). */"
    yield _list("OF_PLANS", [(these, of[these]) for name, these in ranges if name == "plan"])
    yield "/* What SPIR-V's capabilities need; others are refused: X(capability, features). */"
    needed = [(f"{n}u", f"0x{int(f):x}u") for n, f in needs._CAPABILITIES.items()]
    yield _list("CAPABILITIES", needed)
    yield "/* Formats of texel views: X(VkFormat, bytes of a texel). */"
    formats = [(f"{n}u", f"{f.texel_bytes}u") for f, n in VK_FORMATS.items()]
    yield _list("TEXELS", formats)
    yield "/* Bytes of an element, by its type. */"
    sizes = (1 if t.name == "BOOL" else np.dtype(t.name.lower()).itemsize for t in PortElement)
    yield f"#define VKB_TYPE_BYTES {{{', '.join(map(str, sizes))}}}\n"


def _many(name: str) -> str:
    return {"matrix": "matrices"}.get(name, f"{name}s")


def _list(name: str, rows: Iterable[tuple[str, ...]]) -> str:
    calls = " ".join(f"X({','.join(row)})" for row in rows)
    lines = textwrap.wrap(calls, 106, initial_indent="    ", subsequent_indent="    ")
    return " \\\n".join((f"#define VKB_{name}(X)", *lines)) + "\n"


def table() -> str:
    """The Markdown tables of docs/bundle.md."""
    return "\n".join(_table_lines())


def _table_lines() -> Iterator[str]:
    yield "| section | number | record | holds |\n|---|---|---|---|"
    for part in sorted((*schema.RECORDS, *schema.BLOBS), key=lambda p: p.section):
        size = f"{part.dtype.itemsize} bytes" if isinstance(part, schema.TableRecord) else "bytes"
        yield f"| {part.name} | {part.section} | {size} | {part.text} |"
    for record in _RECORDS:
        yield f"\n### {record.name}\n\n{record.text}. {record.dtype.itemsize} bytes.\n"
        yield "| offset | field | type | meaning |\n|---|---|---|---|"
        at = 0
        for field in record.fields:
            kind = f"{field.kind}[{field.count}]" if field.count > 1 else field.kind
            yield f"| {at} | {field.name} | {kind} | {field.text} |"
            at += _BYTES[field.kind] * field.count
    for terms in (schema.StepKind, schema.BufferRole, schema.PortElement, schema.Feature):
        yield f"\n### {terms.__name__}\n\n{terms.__doc__}\n\n| value | name |\n|---|---|"
        for term in terms:
            yield f"| {term.value} | {term.name} |"


def page(text: str) -> str:
    """The page with its table made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{behind}"


def main() -> int:
    wanted = {HEADER: header()}
    if PAGE.exists():
        wanted[PAGE] = page(PAGE.read_text(encoding="utf-8"))
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: run tools/bundle_format.py")
        return int(bool(stale))
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
