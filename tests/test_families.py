"""A family of operators has one name in ops, kernel rules, shaders, tests and converters.

Also: every operator is known once ``vknn.ops`` is imported, and documented. Operators are found
here in the text of the sources, not by importing them.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vknn.graph import op_classes

ROOT = Path(__file__).resolve().parents[1]
OPS = ROOT / "src" / "vknn" / "ops"
KERNELS = ROOT / "src" / "vknn" / "lowering" / "kernels"
SHADERS = ROOT / "shaders"
TESTS = ROOT / "tests" / "ops"
LAYERS = {path.parent.name: path for path in (ROOT / "src" / "vknn" / "formats").glob("*/layers")}
#: Names in the formats' folders of layers that are no families.
OF_FORMATS = {
    "common",  # what families of a format share
    "contrib",  # onnxruntime's own operators, of several families
    "control",  # loops and branches: subgraphs, not ops
    "einsum",  # written with transposes, products and sums
    "legacy",  # retired operators of ONNX, of several families
    "losses",  # written with elementwise ops, gathers and sums
    "sequences",  # lists of values: they exist only while a graph is built
    "signal",  # spectrograms and windows: written as convolutions and products
    "stablehlo",  # its operators are ops of all families
    "sources",  # inputs and constants: values of the graph, not ops
}
#: The place where a family's modules are -> names in it that are no families.
OTHERS: dict[Path, set[str]] = {
    OPS: {"common"},  # checks that families share
    KERNELS: set(),
    SHADERS: {
        "common",  # what kernels include
        "profiling",  # what measures the limits of a device; no op runs them
    },
    TESTS: set(),
    **dict.fromkeys(LAYERS.values(), OF_FORMATS),
}
#: Families of a kind of number: their modules are named after what is computed with it.
OF_NUMBERS = {"quantized"}


def modules(place: Path) -> Iterator[Path]:
    """Modules and packages of a place, shaders and tests, as paths relative to it."""
    for pattern in ("*.py", "*.comp"):
        for path in sorted(place.rglob(pattern)):
            relative = path.relative_to(place).with_suffix("")
            if relative.name != "__init__":
                yield relative


def families(place: Path) -> set[str]:
    return {path.parts[0] for path in modules(place)} - OTHERS[place]


@pytest.mark.parametrize("place", OTHERS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_name_is_an_op_family(place: Path) -> None:
    if place == TESTS:  # a file beside the folders is about ops of several families
        assert {p.parts[0] for p in modules(place) if len(p.parts) > 1} <= families(OPS)
    else:
        assert families(place) <= families(OPS)


@pytest.mark.parametrize("place", OTHERS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_name_is_left_over(place: Path) -> None:
    """The exceptions are there, at least in one of the formats."""
    places = list(LAYERS.values()) if place in LAYERS.values() else [place]
    assert OTHERS[place] <= {path.name.removesuffix(".py") for p in places for path in p.iterdir()}


def test_every_family_of_shaders_has_rules() -> None:
    assert families(SHADERS) <= families(KERNELS)


def test_every_op_family_is_tested() -> None:
    tested = {p.parts[0] for p in modules(TESTS) if len(p.parts) > 1}
    assert families(OPS) - tested == {"custom"}  # users' own kernels: tests/formats/test_custom.py


@pytest.mark.parametrize("place", OTHERS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_module_of_a_family_is_named_after_another_one(place: Path) -> None:
    """movement/reduction.py would be of two families; quantized/reduction.py is of one."""
    known = families(OPS)
    wrong = [
        path.as_posix()
        for path in modules(place)
        if len(path.parts) > 1
        and path.parts[0] not in OF_NUMBERS | OTHERS[place]  # common/matmul.py serves several
        and path.name.removeprefix("test_") in known - {path.parts[0]}
    ]
    assert wrong == []


@dataclass
class Class:
    """A class as its source has it."""

    module: str
    bases: list[str]
    abstract: set[str] = field(default_factory=set)
    concrete: set[str] = field(default_factory=set)


def classes(root: Path, package: str) -> dict[str, Class]:
    """The classes in the sources of a package that inherit from others, by name."""
    found: dict[str, Class] = {}
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        module = ".".join(parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.bases:
                assert node.name not in found, f"{node.name} in {module} and {found[node.name]}"
                found[node.name] = _class(node, module)
    return found


def _class(node: ast.ClassDef, module: str) -> Class:
    bases = [ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases]
    made = Class(module, bases)
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            marks = {ast.unparse(mark) for mark in item.decorator_list}
            (made.abstract if "abstractmethod" in marks else made.concrete).add(item.name)
    return made


def lineage(name: str, known: dict[str, Class]) -> list[Class]:
    """A class with those that it inherits from, as far as they are known."""
    if name not in known:
        return []
    return [known[name], *(c for base in known[name].bases for c in lineage(base, known))]


def declared_ops() -> set[tuple[str, str]]:
    """(module, name) of every operator that the sources declare."""
    known = classes(OPS, "vknn.ops")
    known |= {"Op": Class("", [], {"infer", "reference"})}
    found = set()
    for name, made in known.items():
        line = lineage(name, known)
        missing = {m for c in line for m in c.abstract} - {m for c in line for m in c.concrete}
        if known["Op"] in line and not missing and not name.startswith("_"):
            found.add((made.module, name))
    return found


def test_every_op_is_known() -> None:
    importlib.import_module("vknn.ops")
    own = {(op.__module__, op.__name__) for op in op_classes()}
    assert declared_ops() == {(m, n) for m, n in own if m.startswith("vknn.ops.")}


def test_every_op_is_documented() -> None:
    page = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    shown = set()
    for section in sections:
        path = re.search(r"^`src/(.*)\.py`$", section, re.MULTILINE)
        assert path is not None
        for name in re.findall(r"^\| (\w+)(?: \+)? \|", section, re.MULTILINE):
            shown.add((path[1].replace("/", "."), name))
    shown = {(module, name) for module, name in shown if name != "op"}  # the heads of tables
    assert shown == declared_ops(), "run python tools/ops_table.py"
