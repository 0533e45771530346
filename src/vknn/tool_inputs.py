"""Inputs of the tools (verify, profile, bench, tune): a session and the arrays it is fed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from vknn.errors import InputError, naming
from vknn.formats import TensorSpec
from vknn.precision import Precision
from vknn.runtime import Device
from vknn.session import Session, by_signature, engine_of

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

    Of a model with one input an array may stand without its name. Their shapes come from ``shapes``
    or else from the model, be it as a hint. Raises InputError where neither says a shape, and for
    names that the model does not have.
    """
    given = {} if inputs is None else dict(engine_of(session).named(inputs))
    shapes = checked_shapes(shapes)
    known = {spec.name for spec in session.inputs}
    unknown = sorted({*given, *shapes} - known, key=str)
    if unknown:
        names = ", ".join(repr(spec.name) for spec in session.inputs) or "none"
        raise InputError(f"unknown input {', '.join(map(repr, unknown))} (the inputs: {names})")
    random = _random(seed)
    feeds = given
    for spec in session.inputs:
        if spec.name in session.model.recorded and spec.name not in {*feeds, *shapes}:
            feeds[spec.name] = session.model.recorded[spec.name]
        elif spec.name in session.model.defaults and spec.name not in feeds:
            feeds[spec.name] = np.full((1,), session.model.defaults[spec.name], spec.dtype)
        elif spec.name not in feeds:
            hint = likely_shape(session, spec)
            feeds[spec.name] = random_array(spec, shapes.get(spec.name, hint), random)
    return feeds


def checked_shapes(shapes: Any, least: int = 0) -> dict[str, tuple[int, ...]]:
    """Shapes by name that a user gave, each of sizes from ``least`` on; raises InputError."""
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise InputError(f"shapes are a mapping of names, not {shapes!r:.80}")
    return {name: _checked_shape(name, dims, least) for name, dims in shapes.items()}


def _checked_shape(name: Any, dims: Any, least: int) -> tuple[int, ...]:
    sizes = dims.tolist() if isinstance(dims, np.ndarray) else dims
    whole = isinstance(sizes, Sequence) and not isinstance(sizes, str | bytes)
    if not whole or not all(isinstance(d, int | np.integer) and d is not True for d in sizes):
        raise InputError(f"the shape of input {name!r:.200} is {dims!r:.80}, not whole numbers")
    if any(not least <= d < 1 << 31 for d in sizes):
        raise InputError(
            f"the shape of input {name!r:.200} is {tuple(sizes)!s:.200}: sizes are {least} to "
            f"{(1 << 31) - 1:,}"
        )
    return tuple(int(d) for d in sizes)


def _random(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"seed={seed!r:.80}: expected a whole number from 0 on") from None


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
