"""Inputs kept in files: a .npz each, and an index that says what each is the worst of."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from vknn.crosscheck.json_text import json_text
from vknn.errors import VknnError
from vknn.named_files import replacing

#: Name of the index.
INDEX = "worst.json"
_NAME_LENGTH = 60


def write_inputs(
    folder: str | os.PathLike[str],
    inputs: Mapping[str, Mapping[str, np.ndarray]],
    worst_of: Mapping[str, Sequence[Mapping[str, Any]]],
    search: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Files of inputs by their names; ``worst_of`` goes into the index, ``worst.json``.

    ``search``: what says how they were found, which goes into the index with each of them.
    Raises OSError, and VknnError for arrays of objects other than text.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    for number, (name, feeds) in enumerate(inputs.items()):
        files[name] = place / f"{number:03d}-{_plain_name(name)}.npz"
        arrays = {key: without_objects(key, array) for key, array in feeds.items()}
        with replacing(files[name]) as file:
            write_npz(file, arrays)
    how = {} if search is None else {"search": dict(search)}
    index = [
        {"file": path.name, "record": name, "worst_of": list(worst_of.get(name, ())), **how}
        for name, path in files.items()
    ]
    with replacing(place / INDEX) as file:
        file.write(f"{json_text(index)}\n".encode())
    return files


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays of any names in a compressed .npz, which NumPy's functions have not for some."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _plain_name(name: str) -> str:
    """The end of a name in letters that every file system has."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name)[-_NAME_LENGTH:].strip(".-") or "input"


def without_objects(name: str, array: np.ndarray) -> np.ndarray:
    """Text or bytes as NumPy's own type of them; objects are never pickled."""
    array = np.asarray(array)
    if array.dtype != object:
        return array
    for kind, type_ in ((str, "U"), (bytes, "S")):
        if all(isinstance(value, kind) for value in array.reshape(-1)):
            plain = array.astype(type_)
            if np.array_equal(plain.astype(object), array):  # else zeros at an end are lost
                return plain
    raise VknnError(f"{name!r} holds objects, which are not written to files")
