"""LayerNormalization of a product's rows in its dispatch (shaders/matmul/normalized_rows.glsl).

The workgroup of a block of rows that is done last reads them back and normalises them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read4, update, write
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine

#: Most vec4s of a row that a lane has in registers, and least lanes of a row.
MOST_HELD, LEAST_LANES = 12, 8
#: What the last workgroup does for each rows that it has at a time: waits for memory, those for
#: shared memory and barriers among them, and instructions beside those of each vec4; waits for the
#: counter; instructions of all other workgroups. By RADV's machine code for RDNA 2 (``vknn profile
#: --static --isa`` on the null device navi21).
_WAITS, _STEPS, _VEC4, _COUNTER_WAITS, _AROUND = 4.0, 150.0, 40.0, 2.0, 60.0


@dataclass(frozen=True, eq=False)
class RowNorm:
    """Normalisation of rows of ``n4`` vec4s; ``scale`` and ``bias``: constants or None."""

    n4: int
    epsilon: float
    scale: np.ndarray | None
    bias: np.ndarray | None

    def lanes(self, machine: Machine, lanes: int, height: int) -> RowLanes | None:
        """Sharing of ``height`` rows by a workgroup of so many ``lanes``; None where it cannot.

        Nor on GCN: the registers of what only the last workgroups do leave a SIMD one wave in place
        of four there, and all products take longer than is saved (by model, null device raven).
        """
        if machine.converts or lanes & (lanes - 1):
            return None
        least = max(LEAST_LANES, 1 << (ceil_div(self.n4, MOST_HELD) - 1).bit_length())
        if least > lanes:
            return None
        own = least
        while 2 * own * height <= lanes and own < self.n4:  # lanes that would have no row
            own *= 2
        return RowLanes(own, ceil_div(self.n4, own), ceil_div(height, lanes // own))

    def bound(self, emitter: Emitter, lanes: RowLanes | None, blocks: int) -> NormalizedRows:
        """The normalisation of a product's output 0, its output 1; ``blocks``: of rows."""
        assert lanes is not None and emitter.counters is not None
        done = emitter.counters(blocks)
        return NormalizedRows(self.epsilon, lanes, emitter.output(1), self._packed(emitter), done)

    def _packed(self, emitter: Emitter) -> Ref:
        """Scale, then bias; ones and zeros where they are missing."""
        sources = [a for a in (self.scale, self.bias) if a is not None]
        which = f"{int(self.scale is not None)}{int(self.bias is not None)}"
        key = f"affine{which}x{self.n4}"
        return emitter.weight(key, functools.partial(self._pack), *sources)

    def _pack(self) -> np.ndarray:
        width = 4 * self.n4
        scale = np.ones(width) if self.scale is None else self.scale.reshape(-1)
        bias = np.zeros(width) if self.bias is None else self.bias.reshape(-1)
        return np.concatenate([scale, bias]).astype(np.float32)


@dataclass(frozen=True)
class RowLanes:
    """``lanes`` of a row, each with ``held`` vec4s; ``rounds``: until all rows are done."""

    lanes: int
    held: int
    rounds: int

    def cost(self, machine: Machine, groups: int, lanes: int) -> float:
        """Microseconds beside those of the product by ``groups`` workgroups of ``lanes``."""
        steps = self.rounds * (_STEPS + self.held * _VEC4)
        waits = _COUNTER_WAITS + self.rounds * _WAITS
        waves = max(1, lanes // machine.wave)
        last = waits * machine.wait + steps * machine.issue * ceil_div(waves, 4)
        return last + machine.on_simds(groups * lanes, _AROUND, 0.0)


@dataclass(frozen=True, eq=False)
class NormalizedRows:
    """A normalisation as a dispatch of a product takes it on; ``y``: what it writes."""

    epsilon: float
    lanes: RowLanes
    y: Ref
    affine: Ref
    done: Ref

    @property
    def bindings(self) -> list[BoundBuffer]:
        """Bindings behind those of the product."""
        return [write(self.y), read4(self.affine), update(self.done)]

    @property
    def spec(self) -> dict[str, int | float]:
        """Specialization constants of normalized_rows.glsl."""
        own = {"NORM_LANES": self.lanes.lanes, "NORM_HELD": self.lanes.held}
        return {**own, "NORM_EPSILON": float(self.epsilon)}
