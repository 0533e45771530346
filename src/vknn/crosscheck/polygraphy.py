"""Polygraphy's JSON files: results of its runners (``--save-outputs``) and inputs.

Every object of theirs is a JSON object with its class under "polygraphy_class". Results are a list
of pairs, a runner's name and its iterations, each with its outputs by name; inputs are a list of
objects, an iteration each, with arrays by name. An array is a .npy file in base64.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.crosscheck.npz_files import MOST_ARRAYS, NPY_ERRORS, checked_file, npy_array
from vknn.errors import InputError
from vknn.pictures import UnreadableFileError
from vknn.printable import one_line
from vknn.run_limits import make_room

SUFFIX = ".json"
#: Bytes of a file at most.
MOST_BYTES = 1 << 31
#: Bytes of memory that a byte of the file takes while it is read: text, strings of it, arrays.
_EXPANSION = 3
#: Characters of texts of a file that are shown.
_LONGEST = 300


def load_results(
    path: str | os.PathLike[str], runner: str | None = None, iteration: int = 0
) -> dict[str, np.ndarray]:
    """Arrays of one iteration by name, of results or of inputs.

    Args:
        path: The file, which anybody may have made: sizes are checked, nothing is unpickled.
        runner: The runner, where there are several: its name or a part that one alone has.
        iteration: The iteration, from 0.

    Raises:
        vknn.InputError: The file is no such, or there is no such runner or iteration.
    """
    place = checked_file(path)
    try:
        document = _document(place)
        iterations = _iterations(document, runner, place)
        if not 0 <= iteration < len(iterations):
            raise InputError(
                f"{place} has {len(iterations)} iterations, from 0 on, and none of {iteration}"
            )
        chosen = iterations[iteration]
        arrays = chosen.get("outputs") if "runner_name" in chosen else chosen
        if not isinstance(arrays, dict) or not arrays:
            raise ValueError("the iteration has no arrays")
        if len(arrays) > MOST_ARRAYS:
            raise ValueError(f"it has {len(arrays)} arrays; at most {MOST_ARRAYS} are read")
        return {name: _array(value, one_line(name)[:60]) for name, value in arrays.items()}
    except InputError:
        raise
    except (*NPY_ERRORS, RecursionError) as error:
        text = one_line(str(error))[:_LONGEST]
        raise UnreadableFileError(
            f"{place} is no file of Polygraphy's that can be read: {text}"
        ) from None


def _document(place: Path) -> Any:
    size = place.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"it has {size} bytes; at most {MOST_BYTES} are read")
    make_room(_EXPANSION * size, f"reading {place}")
    return json.loads(place.read_bytes())


def _iterations(document: Any, runner: str | None, place: Path) -> Sequence[Mapping[str, Any]]:
    """The iterations of the runner, or of a file of inputs."""
    if isinstance(document, dict) and isinstance(document.get("lst"), list):
        found = _chosen(document["lst"], runner, place)
    elif runner is not None:
        raise InputError(f"{place} holds inputs, not results of runners: leave out the runner")
    else:
        found = document if isinstance(document, list) else [document]
    if not all(isinstance(iteration, dict) for iteration in found):
        raise ValueError("it is neither results nor inputs")
    return found


def _chosen(pairs: list[Any], runner: str | None, place: Path) -> list[Any]:
    """The iterations of the runner that is named, or of the only one."""
    for pair in pairs:
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], list)
        ):
            raise ValueError("its results are no pairs of a runner and its iterations")
    names = [name for name, _ in pairs]
    shown = one_line(", ".join(map(repr, names)) or "none")[:_LONGEST]
    fitting = [
        iterations
        for name, iterations in pairs
        if runner is None or name == runner or (runner in name and runner not in names)
    ]
    if len(fitting) == 1:
        return list(fitting[0])
    if not fitting:
        if runner is None:
            raise InputError(f"{place} has no results")
        raise InputError(f"{place} has no results of a runner {runner!r}; it has {shown}")
    what = "name one (--runner)" if runner is None else f"{runner!r} is part of several names"
    raise InputError(f"{place} has results of several runners, {what}: {shown}")


def _array(value: Any, name: str) -> np.ndarray:
    """An array, also within the object that Polygraphy puts around those of results."""
    if isinstance(value, dict) and isinstance(value.get("values"), dict):
        value = value["values"]
    if isinstance(value, dict) and "tensor" in value:
        raise ValueError(f"{name!r} is a tensor of PyTorch's, which is pickled: save NumPy arrays")
    text = value.get("array") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise ValueError(f"{name!r} is no array")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"array {name!r} is no base64 (or of a Polygraphy before 0.30)") from None
    return npy_array(data, name)
