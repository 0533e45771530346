"""Remedies that error messages name: every text under src/vknn that tells the user what to do.

A text is found by its words, a formatted value in it reads ``{}``. Docstrings, help of options, the
table of environment switches and lines of GLSL's preprocessor are no messages.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "vknn"

#: Words that open an instruction, at the start of a text or of a part of one.
VERBS = (
    "use|install|reinstall|give|set|unset|raise|close|open|choose|check|update|try|register|report"
)
REMEDY = re.compile(
    rf"(?:^|[;:,(] |\bor |\band )(?:{VERBS}) "
    r"|write it as|name a"
    r"|\bVKNN_[A-Z]"
    r"|(?<![\w-])--[a-z]"
    r"|\b\w+=(?:'\w|True)"
    r"|pip install|\bapt\b|`vknn |vulkaninfo"
    r"|\bknown(?: are|:) |; there are |is not needed|is not registered|\(\.mlmodel\)"
    r"|needs? a Vulkan device|must be above 0|at least one"
)
#: Calls whose texts are no messages.
OTHERS = ("Switch", "add_argument")


@functools.cache
def remedies() -> dict[str, str]:
    """Texts with a remedy -> the file that has them."""
    found: dict[str, str] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        if "generated" in name or name.endswith("_pb2.py"):
            continue
        for text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
            if " " in text and not text.startswith("#") and REMEDY.search(text):
                found[text] = name
    return found


def pattern(text: str) -> str:
    """A regular expression for the messages that a text gives."""
    return re.escape(text).replace(re.escape("{}"), "(?s:.*)")


def _texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, neighbours joined by Python itself."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif not _left_out(node):
            left.extend(ast.iter_child_nodes(node))


def _left_out(node: ast.AST) -> bool:
    """Whether it is a docstring, or a call whose texts are no messages."""
    if isinstance(node, ast.Call):
        return _name(node.func) in OTHERS
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
