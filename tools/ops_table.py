#!/usr/bin/env python3
"""Writer of docs/ops.md, the table of canonical ops: meaning, attributes, kernels, layers.

tools/ops_table.py            writes docs/ops.md
tools/ops_table.py --check    exits 1 when docs/ops.md is not what would be written
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
if str(ROOT / "src") not in sys.path:
    sys.path.insert(0, str(ROOT / "src"))

import vknn.ops  # noqa: E402, F401  (makes every op known)
from vknn.graph import DType, Op, op_classes  # noqa: E402

INTRODUCTION = """\
# Canonical ops

Every model file is read into a graph of these ops. The meaning of an op is its `reference` in
NumPy, in the module named beside the family; `infer` there gives shapes and dtypes. Floats are
computed in float64 and rounded once where that matters, integers exactly. Axis 0 is the batch,
axis 1 the channels; negative axes count from the end.

NaN and infinities are what IEEE 754 makes of an op's formula, on every backend, and reach no
element that the formula does not lead them to: a maximum with NaN is NaN, the padding of a packed
layout is nobody's neighbour. Exceptions stand in an op's text; one holds for Conv: Winograd's
kernels may make NaN of all pixels of the tiles (of up to 4 x 4) that read an infinity or NaN, in
all output channels that do, and NaN of infinities. `VKNN_DISABLE=winograd` switches them off.

*Kernels* is the module of `vknn.lowering.kernels` whose rule turns the op into dispatches ("host":
only the reference runs it). Ops marked + take an elementwise epilogue: see Fused. *ncnn* lists the
layers that may be read as the op, alone or among others.

This page is written by `tools/ops_table.py`; a test fails when it is out of date.
"""


def page() -> str:
    """The whole page as Markdown."""
    families: dict[str, list[type[Op]]] = {}
    for op in _ops():
        families.setdefault(op.__module__, []).append(op)
    layers = _layers()
    # The elementwise modules first, then the others by name.
    first = [f"vknn.ops.elementwise.{name}" for name in ("unary", "activation", "binary", "fused")]
    modules = first + sorted(set(families) - set(first))
    sections = [_section(module, families[module], layers) for module in modules]
    return "\n".join([INTRODUCTION, *sections])


def _ops() -> list[type[Op]]:
    own = (op for op in op_classes() if op.__module__.startswith("vknn.ops."))
    return sorted(own, key=lambda op: op.__name__.lower())


def _section(module: str, ops: list[type[Op]], layers: Mapping[type[Op], list[str]]) -> str:
    family = module.rpartition(".")[2]
    title = (inspect.getdoc(sys.modules[module]) or family).splitlines()[0].rstrip(".")
    lines = [f"## {title}", "", f"`src/{module.replace('.', '/')}.py`", ""]
    lines += ["| op | meaning | attributes | kernels | ncnn |", "|---|---|---|---|---|"]
    notes = []
    for op in ops:
        first, _, rest = (inspect.getdoc(op) or "").partition("\n\n")
        mark = " +" if op.fusion is not None else ""
        cells = [f"{op.__name__}{mark}", _flat(first), _attributes(op), _kernels(op)]
        cells.append(", ".join(layers.get(op, [])))
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        if rest:
            notes += ["", f"**{op.__name__}.** {_flat(rest)}"]
    return "\n".join([*lines, *notes, ""])


def _flat(text: str) -> str:
    """Docstring text on one line, as Markdown."""
    return " ".join(text.split()).replace("``", "`").replace("*", "\\*").replace("<", "&lt;")


def _attributes(op: type[Op]) -> str:
    parts = []
    for field in dataclasses.fields(op):  # type: ignore[arg-type]
        default = field.default
        if default is dataclasses.MISSING:
            parts.append(field.name)
        else:
            parts.append(f"{field.name}={_default(default)}")
    return f"`{', '.join(parts)}`" if parts else ""


def _default(value: Any) -> str:
    if isinstance(value, DType):
        return value.value
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _kernels(op: type[Op]) -> str:
    from vknn.lowering.kernels import find_rule

    if op.__name__ == "Fused":
        return "those of its base"
    rule = find_rule(op)
    return rule.__module__.removeprefix("vknn.lowering.kernels.") if rule else "host"


def _layers() -> dict[type[Op], list[str]]:
    """The ncnn layers whose converters name each op, themselves or through functions they call."""
    import vknn.lowering  # noqa: F401  (registers the rules)
    from vknn.formats.ncnn.layers import layer_types

    users: dict[type[Op], list[str]] = {}
    for name, layer in sorted(layer_types().items()):
        for op in set(_named(layer.convert, set())):
            users.setdefault(op, []).append(name)
    return users


def _named(thing: Any, seen: set[Any]) -> Iterator[type[Op]]:
    """The op classes that a function, class or container of a format refers to, however deep."""
    if isinstance(thing, type) and issubclass(thing, Op):
        yield thing
    elif isinstance(thing, Op):
        yield type(thing)
    elif isinstance(thing, Mapping):
        yield from _all(thing.values(), seen)
    elif isinstance(thing, (tuple, list)):
        yield from _all(thing, seen)
    elif isinstance(thing, functools.partial):
        yield from _all((thing.func, thing.args, thing.keywords), seen)
    elif isinstance(thing, types.FunctionType) and _is_of_a_format(thing) and thing not in seen:
        seen.add(thing)
        yield from _all(_referred(thing), seen)


def _all(things: Iterable[Any], seen: set[Any]) -> Iterator[type[Op]]:
    for thing in things:
        yield from _named(thing, seen)


def _is_of_a_format(thing: Any) -> bool:
    return thing.__module__.startswith("vknn.formats.")


def _referred(function: types.FunctionType) -> list[Any]:
    """What a function can reach: closure, defaults, globals, and names of modules it uses."""
    from vknn.formats.ncnn.context import Context

    names = set(_names(function.__code__))
    found = [function.__globals__[n] for n in names if n in function.__globals__]
    modules = [m for m in found if isinstance(m, types.ModuleType) and m.__name__ != "vknn"]
    found += [
        getattr(m, n) for m in modules if "vknn" in m.__name__ for n in names if hasattr(m, n)
    ]
    # Converters add through their context's methods too, and a few of those name ops.
    found += [getattr(Context, n) for n in names if n in dir(Context)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*found, *cells, function.__defaults__ or (), function.__kwdefaults__ or {}]


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    text = page()
    if parser.parse_args().check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            print(f"{PAGE} is out of date: run tools/ops_table.py", file=sys.stderr)
        return int(current != text)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
