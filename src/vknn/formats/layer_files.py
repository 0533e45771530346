"""Python files that register layers of a user's own (``--layers``)."""

from __future__ import annotations

import os
import runpy
from collections.abc import Iterable
from pathlib import Path

from vknn.errors import VknnError


def run_layer_files(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Run of each file. Raises VknnError, naming the file, for whatever it raises."""
    for path in map(Path, paths):
        if not path.is_file():
            raise VknnError(f"--layers: there is no file {path}")
        try:
            runpy.run_path(str(path))
        except VknnError:
            raise
        except Exception as error:
            raise VknnError(f"--layers {path}: {type(error).__name__}: {error}") from error
