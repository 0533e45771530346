"""Remedies that error messages name: every text under src/vknn that tells the user what to do.

A text is found by its words, a formatted value in it reads ``{}``. Docstrings, help of options and
the table of environment switches are no messages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "vknn"

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


def remedies() -> dict[str, str]:
    """Texts with a remedy -> the file that has them."""
    found: dict[str, str] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        if "generated" in name or name.endswith("_pb2.py"):
            continue
        for text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
            if " " in text and REMEDY.search(text):
                found[text] = name
    return found


def pattern(text: str) -> str:
    """A regular expression for the messages that a text gives."""
    return re.escape(text).replace(re.escape("{}"), "(?s:.*)")


def _texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, neighbours joined by Python itself."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node.value]
        elif isinstance(node, ast.Call) and _name(node.func) in OTHERS:
            parts = [*node.args, *node.keywords]
        elif isinstance(node, ast.JoinedStr):
            parts = list(node.values)
        left_out.update(id(inner) for part in parts for inner in ast.walk(part))
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
