#!/usr/bin/env python3
"""Writer of src/vknn/formats/onnx/signatures.txt: what operators take, version by version.

tools/onnx_signatures.py            writes the table
tools/onnx_signatures.py --check    exits 1 when the table is not what would be written

The facts come from the packages onnx (operators of the default domain) and onnxruntime
(com.microsoft, and operators that ONNX has no more); both are in the extra "test". A version whose
row would be that of the version before has none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "src" / "vknn" / "formats" / "onnx" / "signatures.txt"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tools.pages import main  # noqa: E402

from vknn.formats.onnx.element_types import ELEMENT_TYPES  # noqa: E402
from vknn.formats.onnx.layers import operator_types  # noqa: E402
from vknn.formats.onnx.registry import MICROSOFT  # noqa: E402
from vknn.formats.onnx.signatures import CLASSES, KINDS, short  # noqa: E402

#: The first line; signatures.py says what the others mean.
HEAD = "# Written by tools/onnx_signatures.py, from"
#: The letter of each kind of attribute.
_LETTERS = {kind: letter for letter, kind in KINDS.items()}
#: Of these the types that onnxruntime states are not those of files.
_VAGUE = ("GRUUnit", "GivenTensorFill")
_SHORT = {f"tensor({t.name})": short(t.dtype) for t in ELEMENT_TYPES.values()}


def text() -> str:
    """The whole table."""
    lines = [f"{HEAD}: onnx {version('onnx')}, onnxruntime {version('onnxruntime')}"]
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for schema in _schemas():
        rows.setdefault((schema.domain, schema.name), {})[schema.since_version] = _row(schema)
    for (domain, name), versions in sorted(rows.items()):
        last = None
        for since, row in sorted(versions.items()):
            if row != last:
                lines.append(f"{f'{domain}::{name}' if domain else name} {since} {row}")
            last = row
    return "\n".join(lines) + "\n"


def _schemas() -> Iterator[Any]:
    from onnx import defs
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    own = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    yield from own
    versions = {(s.name, s.since_version) for s in own}
    ours = operator_types()
    retired = {name for domain, name in ours if not domain} - {s.name for s in own} - {*_VAGUE}
    for schema in get_all_operator_schema():
        if schema.domain == MICROSOFT and (MICROSOFT, schema.name) in ours:
            yield schema
        known = schema.name in retired or schema.name in {name for name, _ in versions}
        if schema.domain == "" and known and (schema.name, schema.since_version) not in versions:
            yield schema


def _row(schema: Any) -> str:
    types = {c.type_param_str: _types(c.allowed_type_strs) for c in schema.type_constraints}
    used = [p for p in (*schema.inputs, *schema.outputs) if _type_of(p) in types]
    names = {name: f"T{n}" for n, name in enumerate(dict.fromkeys(map(_type_of, used)))}
    inputs = " ".join(_port(p, names) for p in schema.inputs)
    outputs = " ".join(_port(p, names) for p in schema.outputs)
    sets = " ".join(f"{short}={types[name]}" for name, short in names.items())
    attributes = " ".join(
        f"{name}:{_LETTERS[_kind(a)]}{'!' * a.required}"
        for name, a in sorted(schema.attributes.items())
    )
    return "|".join((inputs, outputs, sets, attributes))


def _kind(attribute: Any) -> str:
    return str(attribute.type).rpartition(".")[2].lower().removesuffix("_proto")


def _type_of(port: Any) -> str:
    return getattr(port, "type_str", None) or port.typeStr


def _port(port: Any, names: dict[str, str]) -> str:
    option = str(port.option).rpartition(".")[2]
    type_ = _type_of(port)
    short = names.get(type_) or _types([type_])
    if option == "Variadic":
        same = getattr(port, "is_homogeneous", None)
        return short + ("..." if (port.isHomogeneous if same is None else same) else "*")
    return short + "?" * (option == "Optional")


def _types(names: Any) -> str:
    """Short names of a set of types, classes first."""
    found = {_SHORT[name] for name in names if name in _SHORT}
    kinds = sorted({n.partition("(")[0] for n in names} - {"tensor"})
    shown = []
    for name, members in CLASSES.items():
        if set(members) <= found:
            shown.append(name)
            found -= set(members)
    return ",".join((*shown, *sorted(found), *kinds))


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/onnx_signatures.py", text))
