"""Python files that register layers of a user's own (``--layers``)."""

from __future__ import annotations

import os
import runpy
from collections.abc import Iterable
from pathlib import Path

from vknn.errors import VknnError

_ran: set[str] = set()


def run_layer_files(paths: Iterable[str | os.PathLike[str]], *, again: bool = True) -> None:
    """Run of each file. Raises VknnError, naming the file, for whatever it raises.

    ``again`` False leaves out those that this process has run.
    """
    for path in map(Path, paths):
        if not again and os.path.abspath(path) in _ran:
            continue
        if not path.is_file():
            raise VknnError(f"--layers: there is no file {path}")
        try:
            runpy.run_path(str(path))
            _ran.add(os.path.abspath(path))
        except VknnError:
            raise
        except Exception as error:
            raise VknnError(f"--layers {path}: {type(error).__name__}: {error}") from error
