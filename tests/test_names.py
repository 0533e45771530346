"""Names and first words: a class name means one thing; a docstring begins with what is there."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "vknn"
FOLDERS = (SOURCES, ROOT / "tools", ROOT / "benchmarks", ROOT / "examples")
#: What every format has of its own, by one name: "the Context of ncnn", "the Context of tflite".
OF_EVERY_FORMAT = {"Context", "LayerRecord", "Stage"}
#: Words that no search for the thing finds: of questions, and of what hangs in the air.
EMPTY_WORDS = {
    *("What", "How", "Why", "Which", "Where", "When", "Who"),
    *("As", "At", "By", "For", "From", "In", "Of", "On", "Over", "To", "With", "Everything"),
}
#: Verbs: a docstring says what comes of a call, not that something is done.
VERBS = {
    *("Adds", "Builds", "Compares", "Compiles", "Computes", "Converts", "Creates"),
    *("Finds", "Gets", "Gives", "Holds", "Installs", "Keeps", "Makes", "Measures", "Opens", "Puts"),
    *("Raises", "Reads", "Returns", "Runs", "Sets", "Starts", "Takes", "Tells", "Trains", "Turns"),
    *("Writes",),
}


def _files() -> list[Path]:
    found = [p for folder in FOLDERS for p in sorted(folder.rglob("*.py"))]
    return [p for p in found if not p.stem.endswith("_pb2") and "generated" not in p.parts]


def _public(node: ast.Module | ast.ClassDef) -> Iterator[ast.AST]:
    """The node itself and all that is public in it, but for what lies in functions."""
    yield node
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
            yield child
        elif isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public(child)


@functools.cache
def _docstrings() -> dict[Path, list[tuple[str, str]]]:
    """File -> what is public in it: the name of a class of the module's own, else "", and the
    docstring. Kept, as all of the package is parsed for it."""
    found = {}
    for path in _files():
        tree = ast.parse(path.read_text())
        found[path] = [
            (
                node.name if isinstance(node, ast.ClassDef) and node in tree.body else "",
                ast.get_docstring(node) or "",  # type: ignore[arg-type]
            )
            for node in _public(tree)
        ]
    return found


def _rooms_by_class() -> dict[str, list[str]]:
    """Public class -> the modules that define one of that name, relative to src/vknn."""
    rooms: dict[str, list[str]] = defaultdict(list)
    for path, public in _docstrings().items():
        if path.is_relative_to(SOURCES):
            for name in filter(None, (name for name, _ in public)):
                rooms[name].append(str(path.relative_to(SOURCES)))
    return rooms


def test_public_classes_of_different_modules_have_different_names() -> None:
    rooms = _rooms_by_class()
    assert len(rooms) > 300
    shared = {name for name, paths in rooms.items() if len(paths) > 1}
    assert not {name: rooms[name] for name in shared - OF_EVERY_FORMAT}


def test_names_of_every_format_are_at_most_once_in_each() -> None:
    rooms = _rooms_by_class()
    for name in OF_EVERY_FORMAT:
        formats = [path.split("/")[1] for path in rooms[name]]
        assert all(path.startswith("formats/") for path in rooms[name])
        assert len(formats) == len(set(formats)) > 1


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_docstrings_of_what_is_public_begin_with_what_it_is(folder: Path) -> None:
    bad, seen = [], 0
    for path, public in _docstrings().items():
        if not path.is_relative_to(folder):
            continue
        for _, docstring in public:
            words = docstring.split()
            seen += bool(words)
            if words and words[0] in EMPTY_WORDS | VERBS:
                bad.append(f"{path.relative_to(ROOT)}: {' '.join(words[:8])}")
    assert seen > 10
    assert not bad, "\n".join(bad)
