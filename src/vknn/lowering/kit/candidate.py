"""Candidate: one way to compute a node, with its estimated cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.layouts import Layout

#: Most products that are added up in float16 (half_sums.glsl, shared_memory_tiles.glsl).
HALF_TERMS = 16


@dataclass(frozen=True)
class Part:
    """Part of output 0 that one input makes up as it is.

    ``offset``: byte where it begins; None where its producer cannot write there (alignment, bytes
    behind its end). ``cost``: estimated microseconds of copying it there.
    """

    offset: int | None
    cost: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """Candidate: one way to compute a node, in given layouts, at an estimated cost.

    ``inputs``: the layout each input is wanted in; None for an absent input and for a constant
    that ``emit`` packs itself (``Emitter.weight``). ``outputs``: the layout each output gets.
    ``cost``: estimated microseconds on the device, for choosing among candidates (see
    ``Problem.machine``). ``view``: output 0 is the bytes of this input from ``view_offset``
    on; then ``emit`` is called only where no alias is possible (and must copy). ``inplace``: inputs
    whose buffer output 0 may take over (each element is read by the lane that writes it).
    ``parts``: one for each input of an op that joins; a producer may write its part in place, which
    saves the part's cost (``cost`` is that of copying all), and ``emit`` then leaves it out.
    ``counts``: workgroups count in words of :attr:`Emitter.counters`, for which the plan has one
    fill, whose time is in none of the costs.
    """

    name: str
    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout, ...]
    emit: Callable[[Emitter], None]
    cost: float = 0.0
    view: int | None = None
    view_offset: int = 0
    inplace: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    counts: bool = False
