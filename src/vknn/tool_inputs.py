"""Inputs of the tools (verify, profile, bench, tune): a session and the arrays it is fed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from vknn.errors import InputError, naming
from vknn.formats import TensorSpec
from vknn.precision import Precision
from vknn.runtime import Device
from vknn.session import Session, by_signature

Path = str | os.PathLike[str]
Shapes = Mapping[str, tuple[int, ...]]
#: Told how many steps are done, how many there are, and what is being done.
ProgressCallback = Callable[[int, int, str], None]

#: Elements that are made up at most: the shape may come from a file.
MAX_RANDOM = 1 << 28


@contextmanager
def opened(
    model: Path | Session,
    weights: Path | None = None,
    *,
    device: str | Device = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    disable: str | Iterable[str] = (),
    signature: str | None = None,
) -> Iterator[Session]:
    """The session given, or one made for the duration from a file with these options.

    With ``signature`` it is as one that runs that. The errors inside the block name the model's
    file.
    """
    if isinstance(model, Session):
        with naming(model.model.file):
            yield by_signature(model, signature)
        return
    with (
        Session(
            model,
            weights,
            device=device,
            precision=precision,
            arithmetic=arithmetic,
            disable=disable,
        ) as session,
        naming(session.model.file),
    ):
        yield by_signature(session, signature)


def complete_feeds(
    session: Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """``inputs`` and, for inputs that it lacks, the model's own arrays and numbers or random ones.

    Their shapes come from ``shapes`` or else from the model, be it as a hint. Raises InputError
    where neither says a shape, and for names that the model does not have.
    """
    known = {spec.name for spec in session.inputs}
    unknown = sorted({*(inputs or {}), *(shapes or {})} - known)
    if unknown:
        names = ", ".join(repr(spec.name) for spec in session.inputs) or "none"
        raise InputError(f"unknown input {', '.join(map(repr, unknown))} (the inputs: {names})")
    random = np.random.default_rng(seed)
    feeds = dict(inputs or {})
    for spec in session.inputs:
        if spec.name in session.model.recorded and spec.name not in {*feeds, *(shapes or {})}:
            feeds[spec.name] = session.model.recorded[spec.name]
        elif spec.name in session.model.defaults and spec.name not in feeds:
            feeds[spec.name] = np.full((1,), session.model.defaults[spec.name], spec.dtype)
        elif spec.name not in feeds:
            hint = likely_shape(session, spec)
            feeds[spec.name] = random_array(spec, (shapes or {}).get(spec.name, hint), random)
    return feeds


def needed_inputs(session: Session, given: Container[str] = ()) -> list[TensorSpec]:
    """The inputs that are not given and that no number or array of the model's stands for."""
    known = {**session.model.defaults, **session.model.recorded}
    return [s for s in session.inputs if s.name not in given and s.name not in known]


def likely_shape(session: Session, spec: TensorSpec) -> tuple[int | None, ...] | None:
    """The shape of an input, or where some of it is free the one that the file suggests."""
    if spec.sizes is not None and None not in spec.sizes:
        return spec.sizes
    return session.model.shape_hints.get(spec.name, spec.sizes)


def random_array(
    spec: TensorSpec, shape: tuple[int | None, ...] | None, random: np.random.Generator
) -> np.ndarray:
    """Values for an input: normal floats, 8-bit integers of the full range, others 0 or 1.

    Strings are those digits.
    """
    if shape is None or None in shape:
        raise InputError(
            f"the model leaves the shape of input {spec.name!r} open: give an array or a shape "
            "(--input, --shape)"
        )
    dims = tuple(d for d in shape if d is not None)
    if math.prod(dims) > MAX_RANDOM:
        raise InputError(f"input {spec.name!r} of shape {dims} is too large to make up: give it")
    dtype = spec.dtype
    if dtype.kind == "f":
        return random.standard_normal(dims).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, dims, dtype, endpoint=True)
    if dtype.kind == "O":
        return random.integers(0, 2, dims).astype("S").astype(object)
    return random.integers(0, 2, dims).astype(dtype)
