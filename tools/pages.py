"""Helpers of the tools that write pages of docs/."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Arrays of at most so many elements are kept with their values, others are zeros.
MOST_VALUES = 16


def notes(mark: str, *things: Any) -> Iterator[str]:
    """The paragraphs of the docstrings of ``things`` that begin with ``mark``, as Markdown."""
    for thing in things:
        text = inspect.getdoc(thing) or ""
        for paragraph in text.split("\n\n"):
            for part in paragraph.split(mark)[1:]:
                note = " ".join(part.split()).replace("*", "\\*").replace("<", "&lt;")
                if note:
                    yield note.replace("``", "`")


def described(x: np.ndarray, kinds: str = "iu") -> dict[str, Any]:
    """An array for an example, in JSON; values only of small ones of these ``kinds``."""
    x = np.asarray(x)
    found: dict[str, Any] = {"shape": list(x.shape), "dtype": x.dtype.name}
    if x.dtype.kind in kinds and x.size <= MOST_VALUES:
        found["values"] = x.reshape(-1).tolist()
    return found


def array(given: dict[str, Any]) -> np.ndarray:
    """The array that was described."""
    dtype = np.dtype(given["dtype"])
    if "values" in given:
        return np.array(given["values"], dtype).reshape(given["shape"])
    return np.zeros(given["shape"], dtype)


def main(
    path: Path, tool: str, page: Callable[[], str], record: Callable[[], None] | None = None
) -> int:
    """Exit code of a tool that writes ``page()`` to ``path``, or with --check compares them."""
    parser = argparse.ArgumentParser(description=f"Writes {path.name}.")
    if record is not None:
        parser.add_argument("--record", action="store_true", help="take new examples first")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    arguments = parser.parse_args()
    if record is not None and arguments.record:
        record()
    text = page()
    if arguments.check:
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if current != text:
            print(f"{path} is out of date: run {tool}", file=sys.stderr)
        return int(current != text)
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    return 0
