"""Generator of the accessors and the table layouts of TensorFlow Lite files from tflite.fbs.

python tools/tflite_schema.py           writes both (needs flatc, from flatbuffers-compiler)
python tools/tflite_schema.py --layout  writes the layouts alone
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "vknn" / "formats" / "tflite"
SCHEMA = PACKAGE / "tflite.fbs"
GENERATED = PACKAGE / "generated"

SCALARS = {
    "bool": 1, "byte": 1, "ubyte": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4,
    "long": 8, "ulong": 8, "double": 8,
}  # fmt: skip

_DECLARATION = re.compile(r"(table|enum|union)\s+(\w+)\s*(?::\s*(\w+))?\s*\{([^}]*)\}")
_FIELD = re.compile(r"(\w+)\s*:\s*(\[?)(\w+)\]?")


def layout(schema: str) -> str:
    """The text of layout.py: what stands in each table, by slot."""
    bare = re.sub(r"//.*", "", schema)
    declarations = _DECLARATION.findall(bare)
    enums = {name: SCALARS[base] for kind, name, base, _ in declarations if kind == "enum"}
    unions = {
        name: tuple(re.findall(r"\w+", body)) for kind, name, _, body in declarations
        if kind == "union"
    }  # fmt: skip
    tables = {
        name: _slots(body, enums, unions) for kind, name, _, body in declarations if kind == "table"
    }
    lines = [
        '"""Layouts of the tables of a TensorFlow Lite file; made by tools/tflite_schema.py.',
        "",
        "A slot is a name, a kind and what that kind needs to know: ``scalar`` bytes, ``vector``",
        "bytes of an element, ``string``, ``table`` and ``tables`` (a vector of them) the table,",
        "``union`` its name. A union takes two slots, the first says which member it is.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "#: One slot of a table: name, kind, and a size in bytes or a name.",
        "Slot = tuple[str, str, int | str]",
        "",
        "TABLES: dict[str, tuple[Slot, ...]] = {",
    ]
    for name, slots in tables.items():
        inner = "".join(f"        {slot!r},\n" for slot in slots)
        lines.append(f"    {name!r}: (\n{inner}    )," if slots else f"    {name!r}: (),")
    lines += [
        "}",
        "",
        "#: The members of each union; number 0 is none.",
        "UNIONS: dict[str, tuple[str, ...]] = {",
    ]
    lines += [f"    {name!r}: {members!r}," for name, members in unions.items()]
    lines += [
        "}",
        "",
        "#: The scalar slots that hold a member of an enum: table -> slot -> name of the enum.",
        "ENUMS: dict[str, dict[str, str]] = {",
    ]
    chosen = {
        name: _enum_slots(body, enums) for kind, name, _, body in declarations if kind == "table"
    }
    lines += [f"    {name!r}: {slots!r}," for name, slots in chosen.items() if slots]
    return "\n".join([*lines, "}", ""]).replace("'", '"')


def _slots(
    body: str, enums: dict[str, int], unions: dict[str, tuple[str, ...]]
) -> list[tuple[str, str, int | str]]:
    slots: list[tuple[str, str, int | str]] = []
    for statement in body.split(";"):
        match = _FIELD.search(statement)
        if not match:
            continue
        name, many, kind = match.groups()
        size = SCALARS.get(kind) or enums.get(kind)
        if kind in unions:
            slots += [(f"{name}_type", "scalar", 1), (name, "union", kind)]
        elif kind == "string":
            slots.append((name, "string", 1))
        elif size:
            slots.append((name, "vector" if many else "scalar", size))
        else:
            slots.append((name, "tables" if many else "table", kind))
    return slots


def _enum_slots(body: str, enums: dict[str, int]) -> dict[str, str]:
    fields = (match.groups() for match in map(_FIELD.search, body.split(";")) if match)
    return {name: kind for name, many, kind in fields if kind in enums and not many}


def accessors() -> str:
    """The text of accessors.py, made by flatc."""
    if shutil.which("flatc") is None:
        sys.exit("flatc is not installed (Debian: apt-get install flatbuffers-compiler)")
    with tempfile.TemporaryDirectory() as folder:
        command = ["flatc", "--python", "--gen-onefile", "-o", folder, str(SCHEMA)]
        subprocess.run(command, check=True)
        return (Path(folder) / "tflite_generated.py").read_text()


def main() -> int:
    """Writing of the generated files."""
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "__init__.py").write_text(
        '"""Made by tools/tflite_schema.py from tflite.fbs."""\n'
    )
    (GENERATED / "layout.py").write_text(layout(SCHEMA.read_text()))
    if "--layout" not in sys.argv[1:]:
        (GENERATED / "accessors.py").write_text(accessors())
    return 0


if __name__ == "__main__":
    sys.exit(main())
