"""RNN, GRU and LSTM: one product of all steps with the input, then the steps.

Two ways to take the steps. "loop": a workgroup has a batch entry of a direction to itself and goes
through the steps in a loop, its state in shared memory; several dispatches one after the other
where a lane's loops would be too long for one. "steps": dispatches for each step, in which many
workgroups share the units. The state lies in a buffer between dispatches.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.matmul.gemm import (
    Gemm,
    allows_groups,
    choose_tile,
    fits_device,
    pack_columns,
    subgroup_tile,
)
from vknn.lowering.kernels.matmul.rule import (
    Packed,
    emit_row,
    emit_scalar,
    emit_tile,
    row_split,
    scalar_tile,
)
from vknn.lowering.kernels.recurrent.shape import (
    RNN_CELL,
    WEIGHTS,
    Lanes,
    Shape,
    find_shape,
    input_bias,
    input_matrix,
    loop_lanes,
    packed_size,
    product_size,
    state_matrix,
    step_lanes,
)
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Bound, Emitter, Ref, ceil_div, read1, read4, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, spread
from vknn.ops.quantized.dynamic import ROUNDINGS
from vknn.ops.recurrent.rnn import ACTIVATIONS, GRU, LSTM, RNN
from vknn.plan import DeviceLimits

#: Workgroups that an otherwise idle device would have room for, by kind.
_IDLE = {"cpu": 4, "other": 16}
#: How much longer a product takes that reads its vector from shared memory (measured on llvmpipe).
_SHARED_COST = 2.0


@lowers(RNN, GRU, LSTM)
def recurrent(problem: Problem) -> Sequence[Candidate]:
    """By a loop within a workgroup, by a dispatch a step."""
    shape, limits = find_shape(problem), problem.limits
    if shape is None:
        return []
    product = _InputProduct(shape, limits)
    rows = shape.steps * shape.batch
    big = max(packed_size(shape), product_size(shape), 4 * shape.entries * shape.slots)
    items = max(4 * shape.entries * shape.slots, rows)
    if not product.fits or not fits_buffer(limits, big) or not fits(items, limits):
        return []
    weights = WEIGHTS[type(shape.op)]
    inputs = tuple(
        None if t is None or i in weights else Layout.LINEAR for i, t in enumerate(problem.inputs)
    )
    outputs = (Layout.LINEAR,) * len(problem.outputs)
    before = 3 * DISPATCH_COST + product.product.flops * FLOP_COST
    before += 8 * (product_size(shape) + rows * shape.inputs) * BYTE_COST
    found = []
    for name, emit in (("loop", _Loop(shape, product)), ("steps", _Steps(shape, product))):
        if emit.fits(limits):
            cost = before + emit.cost(limits)
            found.append(Candidate(name, inputs, outputs, emit, cost))
    return found


@dataclass(frozen=True, eq=False)
class _InputProduct:
    """x W^T and the biases for all steps: columns for all gates of all directions."""

    shape: Shape
    limits: DeviceLimits

    @functools.cached_property
    def product(self) -> Gemm:
        s = self.shape
        return Gemm(s.steps * s.batch, s.columns, s.inputs, s.inputs, 1, s.columns, 1, s.columns)

    @property
    def kernel(self) -> str:
        if self.product.one_row:
            return "row"
        if self.shape.inputs % 4:
            return "scalar"
        return "tile" if subgroup_tile(self.product, self.limits) is None else "subgroup"

    @property
    def block(self) -> int:
        """vec4s in the panels of the packed matrix."""
        product, limits = self.product, self.limits
        if self.kernel == "row":
            return min(row_split(product, limits).block, product.n // 4)
        tile = scalar_tile if self.kernel == "scalar" else choose_tile
        if self.kernel == "subgroup":
            shared = subgroup_tile(product, limits)
            assert shared is not None
            return min(shared.block, product.n // 4)
        return min(tile(product, limits).block, product.n // 4)

    @property
    def fits(self) -> bool:
        product, limits, k = self.product, self.limits, self.product.k
        groups_fit = self.kernel != "row" or allows_groups(
            row_split(product, limits).groups(product), limits
        )
        packed = ceil_div(product.n, 4 * self.block) * self.block * 4 * (k + 1)
        loops = fits_loops(limits, k if self.kernel == "scalar" else ceil_div(k, 4))
        device = fits_device(product, limits)
        return groups_fit and loops and device and fits_buffer(limits, packed)

    def emit(self, emitter: Emitter, x: Ref) -> Ref:
        """Dispatches the product; its result is float32."""
        product, block = self.product, self.block
        w, bias = emitter.problem.constants[1], _constant(emitter.problem, 3)
        assert w is not None
        if self.shape.normalized:
            bias = None  # it is added behind the normalization

        def pack() -> np.ndarray:
            shift = None if bias is None else input_bias(self.shape, bias)
            return pack_columns(input_matrix(self.shape, w), shift, block)

        sources = (w,) if bias is None else (w, bias)
        ref = emitter.weight(f"recurrent input {block}", pack, *sources)
        panel = product.k * block
        at = -1 if bias is None else ceil_div(product.n, 4 * block) * panel
        packed, c = (
            Packed(ref, block, panel, at),
            emitter.scratch("products", product_size(self.shape)),
        )
        if self.kernel == "row":
            emit_row(emitter, product, x, packed, c)
        elif self.kernel == "scalar":
            emit_scalar(emitter, product, x, packed, c)
        else:
            emit_tile(emitter, product, x, packed, c, subgroup=self.kernel == "subgroup")
        return c


@dataclass(frozen=True, eq=False)
class _Way:
    """What both ways to take the steps share."""

    shape: Shape
    product: _InputProduct

    def __call__(self, emitter: Emitter) -> None:
        shape = self.shape
        products = self.product.emit(emitter, emitter.input(0))
        state = emitter.scratch("state", 4 * shape.entries * shape.slots)
        states = [r for r in emitter.inputs[4:6] if r is not None]
        if states:
            self._copy_states(emitter, state, load=True)
        bindings = [read4(products), read4(self._weights(emitter)), update(state)]
        self._take_steps(emitter, [*bindings, write(emitter.output())], fresh=not states)
        self._copy_states(emitter, state, load=False)

    def _take_steps(self, emitter: Emitter, bindings: list[Bound], fresh: bool) -> None:
        raise NotImplementedError

    def _weights(self, emitter: Emitter) -> Ref:
        problem = emitter.problem
        r = problem.constants[2]
        assert r is not None
        others = [_constant(problem, i) for i in (3, 6, 7, 8, 9)]
        sources = [a for a in (r, *others) if a is not None]
        present = "".join(str(int(a is not None)) for a in others)

        def pack() -> np.ndarray:
            return state_matrix(self.shape, r, *others)

        return emitter.weight(f"recurrent state {present}", pack, *sources)

    def _copy_states(self, emitter: Emitter, state: Ref, *, load: bool) -> None:
        """Initial states into the buffer, or final ones out of it."""
        shape, limits = self.shape, emitter.problem.limits
        lstm = isinstance(shape.op, LSTM)
        width = shape.outputs + (shape.hidden if lstm else 0)
        count = shape.entries * (4 * shape.slots if load else width)
        shared = grid(limits, count, indices=4 * shape.entries * shape.slots)
        bindings = [write(state) if load else read1(state)]
        spec: dict[str, int | None] = {"HAS_H": None, "HAS_C": None, **shared.spec}
        if load:
            given = [emitter.inputs[4], emitter.inputs[5] if len(emitter.inputs) > 5 else None]
            spare = given[0] or given[1]
            assert spare is not None
            bindings += [read1(ref or spare) for ref in given[: 1 + int(lstm)]]
            spec |= {"HAS_H": int(given[0] is not None), "HAS_C": int(given[1] is not None)}
        else:
            bindings += [write(ref) for ref in emitter.outputs[1:]]
        h_at = 0 if load or shape.steps % 2 == 0 else 4 * shape.h4
        emitter.dispatch(
            "recurrent/states",
            bindings,
            groups=shared.groups,
            local=shared.local,
            push={
                "count": count,
                "chunk": shared.chunk,
                "slots": 4 * shape.slots,
                "outputs": shape.outputs,
                "units": shape.hidden,
                "h_at": h_at,
                "c_at": 8 * shape.h4,
                "batch": shape.batch,
                "directions": shape.op.directions,
                "inner": shape.op.layout,
            },
            spec=spec,
            defines={"LOAD": int(load), "CELLS": int(lstm)},
        )

    def _push(self, first: int, count: int, blocks: int, fresh: bool) -> list[int]:
        s = self.shape
        d, o, inner = s.op.directions, s.outputs, s.op.layout == 1
        row = s.columns // 4
        x = (row, s.steps * row) if inner else (s.batch * row, row)
        y = (d * o, s.steps * d * o, o) if inner else (d * s.batch * o, o, s.batch * o)
        order = ("forward", "reverse", "bidirectional").index(s.op.direction)
        sizes = [s.hidden, s.units4, o, s.h4, *x, *y, s.state_weights // 4, s.entries, s.batch]
        return [*sizes, blocks, s.steps, first, count, order, s.slots, int(fresh)]

    def _spec(self, lanes: Lanes) -> dict[int, int | float]:
        shape, op = self.shape, self.shape.op
        lstm = op if isinstance(op, LSTM) else LSTM()
        bounds = (op.clip, lstm.cell_clip, lstm.projection_clip)
        spec: dict[int, int | float] = {10: lanes.x, 11: lanes.y, 12: shape.cell}
        spec |= {14: int(shape.projection), 15: int(shape.peepholes), 16: int(lstm.input_forget)}
        spec |= {17: ROUNDINGS.index(op.state_rounding), 19: int(shape.normalized)}
        spec |= {20: ROUNDINGS.index(lstm.projection_rounding), 44: float(lstm.norm_epsilon)}
        spec[21] = int(lstm.output_of == "candidate")
        spec |= {40 + i: float(bound) for i, bound in enumerate(bounds)}
        spec[43] = sum(1 << i for i, bound in enumerate(bounds) if bound)
        names = list(ACTIVATIONS)
        first = (
            1 if shape.cell == RNN_CELL else 0
        )  # an RNN's only activation is that of what is new
        for place, (name, alpha, beta) in enumerate(op.functions, first):
            at = 30 + 3 * place
            spec |= {at: names.index(name), at + 1: float(alpha), at + 2: float(beta)}
        return spec


class _Loop(_Way):
    """A workgroup takes an entry through many steps."""

    def fits(self, limits: DeviceLimits) -> bool:
        lanes = loop_lanes(self.shape, limits)
        memory = lanes.shared_bytes(self.shape, state=True) <= limits.shared_memory
        return memory and self._steps_at_once(limits) > 0

    def cost(self, limits: DeviceLimits) -> float:
        shape = self.shape
        idle = max(1.0, _IDLE.get(limits.kind, _IDLE["other"]) / shape.entries)
        work = shape.steps * shape.flops * FLOP_COST * idle * _SHARED_COST
        return ceil_div(shape.steps, self._steps_at_once(limits)) * DISPATCH_COST + work

    def _steps_at_once(self, limits: DeviceLimits) -> int:
        """Steps in one dispatch, so many that a lane's loops do not become too long."""
        lanes = loop_lanes(self.shape, limits)
        room = limits.max_loop_rounds - self.shape.copy_rounds(lanes) - 1
        return min(self.shape.steps, room // (1 + self.shape.step_rounds(lanes)))

    def _take_steps(self, emitter: Emitter, bindings: list[Bound], fresh: bool) -> None:
        shape, limits = self.shape, emitter.problem.limits
        lanes, most = loop_lanes(shape, limits), self._steps_at_once(limits)
        # Chunks of about equal length.
        each = ceil_div(shape.steps, ceil_div(shape.steps, most))
        for first in range(0, shape.steps, each):
            count = min(each, shape.steps - first)
            emitter.dispatch(
                "recurrent/steps",
                bindings,
                groups=spread(shape.entries, limits),
                local=lanes.local,
                push=self._push(first, count, 1, fresh and first == 0),
                spec=self._spec(lanes) | {18: shape.slots},
                defines={"LOOP": 1},
                flops=count * shape.flops,
            )


class _Steps(_Way):
    """Dispatches for each step, one a phase."""

    def fits(self, limits: DeviceLimits) -> bool:
        shape, lanes = self.shape, step_lanes(self.shape, limits)
        longest = max(shape.product_rounds(phase, lanes) for phase in shape.phases)
        groups = max(shape.entries * shape.blocks(phase, lanes) for phase in shape.phases)
        memory = lanes.shared_bytes(shape, state=False) <= limits.shared_memory
        return longest < limits.max_loop_rounds and fits(groups, limits) and memory

    def cost(self, limits: DeviceLimits) -> float:
        shape = self.shape
        return shape.steps * (len(shape.phases) * DISPATCH_COST + shape.flops * FLOP_COST)

    def _take_steps(self, emitter: Emitter, bindings: list[Bound], fresh: bool) -> None:
        shape, limits = self.shape, emitter.problem.limits
        lanes = step_lanes(shape, limits)
        if fresh:
            emitter.fill(bindings[2].ref)
        for step in range(shape.steps):
            for phase in shape.phases:
                blocks = shape.blocks(phase, lanes)
                emitter.dispatch(
                    "recurrent/steps",
                    bindings,
                    groups=spread(shape.entries * blocks, limits),
                    local=lanes.local,
                    push=self._push(step, 1, blocks, False),
                    spec=self._spec(lanes) | {13: phase},
                    defines={"LOOP": 0},
                    flops=shape.flops // len(shape.phases),
                )


def _constant(problem: Problem, index: int) -> np.ndarray | None:
    return problem.constants[index] if index < len(problem.constants) else None
