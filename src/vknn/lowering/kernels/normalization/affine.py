"""Scales and shifts of normalised rows, as shaders/normalization/normalize.comp reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, read4
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem

#: How scales and shifts are numbered (NUMBER of normalize.comp).
BY_PLACE, SPLAT, BY_ITEM = range(3)


@dataclass(frozen=True)
class Affine:
    """Scales and shifts: ``vectors`` if read by vec4s, numbered as normalize.comp says."""

    vectors: bool
    number: int
    spread: int
    period: int


def has_affine(problem: Problem) -> bool:
    """True where there are scales or shifts: inputs behind the first."""
    return any(t is not None for t in problem.inputs[1:])


def affine_layouts(problem: Problem) -> list[Layout | None]:
    """Layouts of the inputs behind the first; None for those that are packed beforehand."""
    packed = _all_constant(problem)
    return [None if packed or t is None else Layout.LINEAR for t in problem.inputs[1:]]


def affine_reads(emitter: Emitter, affine: Affine | None) -> tuple[list[BoundBuffer], int]:
    """The binding of scales and shifts, if any; where the shifts begin."""
    if affine is None:
        return [], 0
    ref, shifts = _affine_buffer(emitter, affine)
    return [read4(ref) if affine.vectors else read1(ref)], shifts


def _affine_buffer(emitter: Emitter, affine: Affine) -> tuple[Ref, int]:
    """A buffer of scales, then shifts; where the shifts begin, in what the shader reads."""
    problem = emitter.problem
    given = [*problem.inputs[1:], None][:2]
    length = max(t.size for t in given if t is not None)
    padded = ceil_div(length, 4) * 4
    where = padded // 4 if affine.vectors else padded
    if not _all_constant(problem):
        return _joined_affine(emitter, length, padded), where
    vectors = [*problem.constants[1:], None][:2]
    key = f"affine {[v is not None for v in vectors]}"
    present = [v for v in vectors if v is not None]
    return emitter.weight(key, lambda: pack_affine(vectors, padded), *present), where


def _all_constant(problem: Problem) -> bool:
    """True where scales and shifts can be packed beforehand."""
    given = zip(problem.inputs[1:], problem.constants[1:], strict=True)
    return all(t is None or c is not None for t, c in given)


def _joined_affine(emitter: Emitter, length: int, padded: int) -> Ref:
    """Scales and shifts that are data, copied side by side."""
    both = emitter.scratch("affine", 2 * padded, as_tensor=True)
    fill = emitter.weight(f"no affine {padded}", lambda: pack_affine((None, None), padded))
    for index, type_ in enumerate([*emitter.problem.inputs[1:], None][:2]):
        half = index * padded * both.width
        source, start = (fill, half) if type_ is None else (emitter.input(1 + index), 0)
        emitter.copy(source, both, length * both.width, start, half)
    return both


def pack_affine(vectors: Sequence[np.ndarray | None], padded: int) -> np.ndarray:
    """[2, padded]: scales and shifts; ones and zeros for those that are absent."""
    packed = np.zeros((2, padded), np.float32)
    packed[0] = 1.0
    for row, vector in zip(packed, vectors, strict=True):
        if vector is not None:
            row[: vector.size] = vector.reshape(-1)
    return packed
