"""Inputs of a session, taken from the command line."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from vknn.cli.arguments import named
from vknn.cli.inputs import image_options, read_input, read_npz
from vknn.errors import InputError
from vknn.formats import TensorSpec
from vknn.session import Session
from vknn.tool_inputs import likely_shape


def read_feeds(
    args: argparse.Namespace, session: Session, file: Path | None = None
) -> dict[str, np.ndarray]:
    """The arrays given with --input, and that of ``file`` for the input that is left."""
    feeds: dict[str, np.ndarray] = {}
    specs = {spec.name: spec for spec in session.inputs}
    left = []
    for text in args.input:
        path = Path(text)
        # A .npz without a name may feed several inputs.
        if path.suffix == ".npz" and path.exists() and set(arrays := read_npz(path)) & set(specs):
            feeds.update((n, a) for n, a in arrays.items() if n in specs)
        else:
            left.append(text)
    options = image_options(args)
    files = {name: Path(text) for name, text in named(left, session, "file").items()}
    if file is not None:
        files[_input_left(session, {*feeds, *files})] = file
    for name, path in files.items():
        hint, own = likely_shape(session, specs[name]), options
        own = dataclasses.replace(own, dtype=specs[name].dtype)
        if name in session.model.images:
            hint = (*hint, 1) if hint is not None and len(hint) == 2 else hint
            own = dataclasses.replace(own, layout="hwc")
        feeds[name] = _in_batch(read_input(path, name, hint, own), specs[name])
    return feeds


def _input_left(session: Session, given: set[str]) -> str:
    """Name of the one input that --input does not give."""
    left = [spec.name for spec in session.inputs if spec.name not in given]
    if len(left) != 1:
        raise InputError(
            "files are for one input and "
            + (f"these are left: {', '.join(left)}" if left else "all inputs are given")
            + ": give the others with --input NAME=FILE"
        )
    return left[0]


def _in_batch(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """The array with a batch axis of 1 where that is all it lacks, as pictures do."""
    shape = spec.shape
    lacks = shape is not None and len(shape) == array.ndim + 1 and shape[0] in (1, None)
    return array[None] if lacks else array
