"""Gates of squeeze-and-excitation blocks in one dispatch (shaders/chain/gate.comp).

Hu et al. 2018, "Squeeze-and-Excitation Networks": the mean of each channel, two fully connected
layers with their activations. Each is a few thousand multiply-adds, and as dispatches of their own
they are all barrier.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import Machine
from vknn.lowering.kit.parameters import Number
from vknn.lowering.kit.problem import EpilogueStep, Problem
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.convolution.conv import Conv
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.pooling.pool import GlobalAveragePool
from vknn.plan import DeviceLimits

#: Lanes of a workgroup, where the device allows them.
LANES = 512
#: Steps of an activation that the kernel has room for.
MOST_STEPS = 3
#: Least number of lanes that share the pixels of an image's vec4 of channels, and of pixels that
#: each takes where there are lanes for more.
PIXEL_LANES, LANE_PIXELS = 4, 4
#: Most bytes of weights that a workgroup reads: one compute unit takes longer for more than all do
#: for a product of one row.
MOST_BYTES = 5 << 18
#: vec4s of inputs of a round, and on RDNA; bytes behind a load's address that instructions reach.
STEPS, RDNA_STEPS, REACH = 2, 4, 4095
#: vec4s in shared memory that sizes are rounded up to, so that layers share pipelines.
ROUND = 64
#: Latencies that a round of loads takes, with what is computed between them, while other lanes
#: of the workgroup read (fitted to modelled times of gates on navi21); waits of a wave elsewhere.
WAIT, WAVE_WAIT = 1.65, 1.15
#: Numbers of workgroups that the gates of an image may be divided among.
SLICES = (1, 2, 4, 8)


@dataclass(frozen=True, eq=False)
class Layer:
    """A fully connected layer: weights [N, K], bias [N] or None, steps of its activation.

    ``sources``: the constants as the graph has them.
    """

    w: np.ndarray
    bias: np.ndarray | None
    steps: tuple[EpilogueStep, ...]
    sources: tuple[np.ndarray, ...]

    @property
    def k4(self) -> int:
        """vec4s of inputs."""
        return ceil_div(self.w.shape[1], 4)

    @property
    def n4(self) -> int:
        """vec4s of outputs."""
        return ceil_div(self.w.shape[0], 4)


@dataclass(frozen=True, eq=False)
class Panels:
    """A layer's weights as chain/layers.glsl reads them: [panel][k4][4][row] vec4s of outputs, the
    4 for the lanes of an input; then the bias [n4]. Padding is 0.

    ``row``: columns of a panel. ``steps``: vec4s of inputs of a round; k4 is padded to whole ones.
    """

    layer: Layer
    row: int
    steps: int

    @property
    def rounds(self) -> int:
        """Rounds of inputs."""
        return ceil_div(self.layer.k4, self.steps)

    @property
    def count(self) -> int:
        """Panels."""
        return ceil_div(self.layer.n4, self.row)

    @property
    def bias(self) -> int:
        """The vec4 where the bias begins, and the number of vec4s before it."""
        return self.count * self.row * 4 * self.rounds * self.steps

    @property
    def size(self) -> int:
        """Elements of weights and bias."""
        return 4 * (self.bias + self.layer.n4)

    @property
    def key(self) -> str:
        """A name that tells packings of a layer apart."""
        return f"{self.row}x{self.steps}"

    def packed(self) -> np.ndarray:
        """Weights and bias, flat."""
        w, rows = self.layer.w, 4 * self.rounds * self.steps
        matrix = np.zeros((rows, self.count, 4 * self.row), np.float32)
        matrix.reshape(rows, -1)[: w.shape[1], : w.shape[0]] = w.T
        bias = np.zeros(4 * self.layer.n4, np.float32)
        if self.layer.bias is not None:
            bias[: w.shape[0]] = self.layer.bias
        return np.concatenate([matrix.swapaxes(0, 1).ravel(), bias])


def steps_of(machine: Machine) -> int:
    """vec4s of inputs that a lane multiplies in a round: beside many, addresses and bounds are few.

    GCN, on which float16 becomes float32 first, would be slower with as many as RDNA has.
    """
    return RDNA_STEPS if machine.scalar and not machine.converts else STEPS


def panels_of(layer: Layer, steps: int, half: bool) -> Panels:
    """Panels as wide as a load's instruction reaches all rows of a round, and all about as wide."""
    most = REACH // ((4 * steps - 1) * (8 if half else 16))
    return Panels(layer, ceil_div(layer.n4, ceil_div(layer.n4, most)), steps)


@dataclass(frozen=True, eq=False)
class Gate:
    """Two layers on vectors of ``batch`` images, which are means of ``pixels`` (1: not pooled)."""

    batch: int
    pixels: int
    pools: bool
    first: Layer
    second: Layer
    steps: int
    half: bool

    @property
    def panels(self) -> tuple[Panels, Panels]:
        """Weights of both layers, one behind the other."""
        first, second = (panels_of(x, self.steps, self.half) for x in (self.first, self.second))
        return first, second

    @property
    def size(self) -> int:
        """Elements of the weights."""
        return sum(panels.size for panels in self.panels)

    def packed(self) -> np.ndarray:
        """Weights of both layers, flat."""
        return np.concatenate([panels.packed() for panels in self.panels])

    def pixel_lanes(self, lanes: int) -> int:
        """Lanes that share the pixels of a vec4 of channels, a power of two."""
        return share_of_pixels(self.pixels, self.first.k4, lanes) if self.pools else 1

    def room(self, lanes: int) -> tuple[int, int]:
        """vec4s of shared memory for parts of the means and for the hidden layer."""
        sizes = (self.first.k4 * self.pixel_lanes(lanes), self.first.n4)
        inputs, hidden = (ceil_div(size, ROUND) * ROUND for size in sizes)
        return inputs, hidden


def share_of_pixels(pixels: int, k4: int, lanes: int) -> int:
    """Lanes that share the ``pixels`` of each of ``k4`` vec4s of channels, a power of two."""
    share = PIXEL_LANES
    while 2 * share * k4 <= lanes and 2 * share * LANE_PIXELS <= pixels:
        share *= 2
    return share


def gate_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each number of workgroups that an image may take; none for other chains."""
    gate = _gate(problem, links)
    if gate is None or not _fits(problem.limits, gate):
        return []
    inputs = (Layout.C4, *(None for _ in problem.inputs[1:]))
    found = []
    for slices in SLICES:
        read = _bytes(problem, gate, slices)
        if read <= MOST_BYTES and (slices == 1 or 8 * slices <= gate.second.n4):
            emit = functools.partial(_emit, gate=gate, slices=slices)
            cost = _cost(problem, gate, slices, read)
            found.append(Candidate(f"gate{slices}", inputs, (Layout.C4,), emit, cost))
    return found


def _bytes(problem: Problem, gate: Gate, slices: int) -> int:
    """Bytes of weights that a workgroup reads."""
    columns = ceil_div(gate.second.n4, slices)
    elements = 16 * (gate.first.k4 * gate.first.n4 + gate.second.k4 * columns)
    return elements * (2 if problem.options.half else 4)


def _gate(problem: Problem, links: Sequence[Link]) -> Gate | None:
    """The gate that the links are, or None."""
    x = links[0].problem.input(0)
    rest = list(links)
    pools = isinstance(rest[0].op, GlobalAveragePool) and not rest[0].problem.epilogue.steps
    if pools:
        rest = rest[1:]
    if any(isinstance(link.op, Reshape) and not keeps_vectors(link) for link in rest):
        return None
    found = [layer_of(link) for link in rest if not isinstance(link.op, Reshape)]
    if len(found) != 2 or found[0] is None or found[1] is None or x.rank < 2:
        return None
    pixels = math.prod(x.dims[2:])
    if (not pools and pixels != 1) or found[0].w.shape[1] != x.dims[1]:
        return None
    steps = steps_of(problem.machine)
    return Gate(x.dims[0], pixels, pools, found[0], found[1], steps, problem.options.half)


def keeps_vectors(link: Link) -> bool:
    """True for a reshape between [N, C] and [N, C, 1...]."""
    x = link.problem.input(0)
    same = [_vector(t) for t in (x, link.output)]
    return same[0] is not None and same[0] == same[1]


def _vector(type_: TensorType) -> tuple[int, int] | None:
    """(N, C) of a tensor [N, C] or [N, C, 1...]; None for others."""
    if type_.rank < 2 or math.prod(type_.dims[2:]) != 1:
        return None
    return type_.dims[0], type_.dims[1]


def layer_of(link: Link) -> Layer | None:
    """The layer that a matrix product or a convolution of one pixel is; None for others."""
    problem, op = link.problem, link.op
    w, *biases = problem.constants[1:] or (None,)
    held = [
        t is None or c is not None for t, c in zip(problem.inputs, problem.constants, strict=True)
    ]
    if w is None or not all(held[1:]):
        return None
    steps = problem.epilogue.steps
    if len(steps) > MOST_STEPS or problem.epilogue.operands:
        return None
    if isinstance(op, MatMul):
        if op.transpose_a or w.ndim != 2 or problem.input(0).rank != 2:
            return None
        matrix = w if op.transpose_b else w.T
    elif type(op) is Conv:
        if op.group != 1 or _vector(problem.input(0)) is None or _vector(link.output) is None:
            return None
        if math.prod(w.shape[2:]) != 1:
            return None
        matrix = w.reshape(w.shape[:2])
    else:
        return None
    bias = next((b for b in biases if b is not None), None)
    return Layer(matrix, bias, steps, tuple(a for a in (w, bias) if a is not None))


def lane_total(limits: DeviceLimits) -> int:
    """Lanes of a workgroup."""
    return min(LANES, limits.max_group_size[0], limits.max_group_invocations)


def _fits(limits: DeviceLimits, gate: Gate) -> bool:
    lanes, first, second = lane_total(limits), gate.first, gate.second
    shared, share = 16 * (sum(gate.room(lanes)) + lanes), gate.pixel_lanes(lanes)
    passes = max(ceil_div(layer.n4, lanes) for layer in (first, second))
    loops = (
        (ceil_div(first.k4 * share, lanes), ceil_div(gate.pixels, share)),
        (passes, max(first.k4, second.k4) + lanes.bit_length() + 1),
    )
    return (
        shared <= limits.shared_memory
        and gate.batch <= limits.max_group_count[1]
        and all(fits_loops(limits, *nested, times=4) for nested in loops)
        and fits_buffer(limits, gate.size)
    )


def _cost(problem: Problem, gate: Gate, slices: int, read: int) -> float:
    """Microseconds: what a compute unit reads, and the rounds of loads that a lane waits for."""
    machine, lanes = problem.machine, lane_total(problem.limits)
    first, second = gate.first, gate.second
    size, waits = 2 if problem.options.half else 4, 4.0
    image = 4 * size * first.k4 * gate.pixels
    if gate.pools:
        share = gate.pixel_lanes(lanes)
        read += image
        waits += ceil_div(first.k4 * share, lanes) * ceil_div(gate.pixels, 4 * share)
    for k4, n4 in ((first.k4, first.n4), (second.k4, ceil_div(second.n4, slices))):
        rounds = ceil_div(k4, gate.steps)
        parts = min(max(1, lanes // n4), rounds)
        waits += ceil_div(n4, lanes) * (ceil_div(rounds, parts) + math.log2(parts) / 4)
    crowd = max(1.0, slices * gate.batch * lanes / machine.lanes)
    waiting = waits * (WAIT * machine.latency if machine.scalar else WAVE_WAIT * machine.wait)
    busy = crowd * max(machine.drawn(read), waiting)
    moved = size * gate.size + gate.batch * image
    return machine.dispatch + machine.beside(busy, moved)


def _emit(emitter: Emitter, gate: Gate, slices: int) -> None:
    limits = emitter.problem.limits
    lanes, first, second = lane_total(limits), gate.first, gate.second
    sources = (*first.sources, *second.sources)
    panels = gate.panels
    key = "-".join(["gate", *(each.key for each in panels)])
    packed = emitter.weight(key, gate.packed, *sources)
    columns = ceil_div(second.n4, slices)
    inputs, hidden = gate.room(lanes)
    emitter.dispatch(
        "chain/gate",
        [read4(emitter.input(0)), read4(packed), write(emitter.output())],
        groups=(ceil_div(second.n4, columns), gate.batch, 1),
        local=(lanes, 1, 1),
        push={
            "c4": first.k4,
            "hidden4": first.n4,
            "hidden": first.w.shape[0],
            "m4": second.n4,
            "channels": second.w.shape[0],
            "pixels": gate.pixels,
            "columns": columns,
            "a": panels[0].bias,
            "b": panels[0].bias + first.n4,
            "b_bias": panels[0].bias + first.n4 + panels[1].bias,
        },
        spec={
            "LANES": lanes,
            "INPUTS": inputs,
            "HIDDEN": hidden,
            "PIXEL_LANES": gate.pixel_lanes(lanes),
            "STEPS": gate.steps,
            "ROW_A": panels[0].row,
            "ROW_B": panels[1].row,
            **step_constants(first.steps, 0),
            **step_constants(second.steps, MOST_STEPS),
        },
        epilogue=0,
        with_steps=False,
        flops=2 * gate.batch * (first.w.size + second.w.size),
    )


def step_constants(steps: Sequence[EpilogueStep], start: int) -> dict[str, Number]:
    """Specialization constants of the steps of a layer, from step ``start`` of the shader on."""
    found: dict[str, Number] = {}
    for number, step in enumerate(steps, start):
        found[f"ep_code_{number}"], found[f"ep_mode_{number}"] = step.code, step.mode
        found[f"ep_a_{number}"], found[f"ep_b_{number}"] = float(step.a), float(step.b)
    return found
