"""Files of recorded tensors, of any engine: NumPy's .npz and Polygraphy's JSON."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from vknn.crosscheck import polygraphy
from vknn.crosscheck.npz_files import load_npz
from vknn.errors import InputError


def has_iterations(path: str | os.PathLike[str]) -> bool:
    """Whether it is a file of Polygraphy's, by its name."""
    return Path(path).suffix.lower() == polygraphy.SUFFIX


def is_record(path: str | os.PathLike[str]) -> bool:
    """Whether it is a record, by its name."""
    return has_iterations(path) or Path(path).suffix.lower() == ".npz"


def load_record(
    path: str | os.PathLike[str], runner: str | None = None, iteration: int | None = None
) -> dict[str, np.ndarray]:
    """Arrays of a file by name; ``runner`` and ``iteration`` as for ``polygraphy.load_results``.

    Raises UnreadableFileError for a file that cannot be read, and InputError where a .npz is asked
    for a runner or an iteration, of which it has none.
    """
    if has_iterations(path):
        return polygraphy.load_results(path, runner, iteration or 0)
    if runner is not None or iteration is not None:
        raise InputError(f"{os.fspath(path)}: only Polygraphy's JSON has runners and iterations")
    return load_npz(path)
