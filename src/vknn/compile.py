"""Compilation: a model and the types of its inputs become a program that is ready to run.

:func:`compile_model` holds all stages in their order: the graph is built, validated, rewritten by
the passes, cut into segments, each segment for the device lowered to a plan, and each plan made an
executable (weights uploaded, pipelines compiled, command buffers recorded).
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn import debug, run_limits
from vknn.errors import InputError
from vknn.formats import Model
from vknn.graph import Graph, TensorType
from vknn.lowering import LoweringOptions, WeightCache
from vknn.lowering.kit.layer_precisions import LayerPrecisions
from vknn.memory_budget import MemoryBudget
from vknn.planning import Outline, outlined
from vknn.program import Program
from vknn.runtime import Device, Executable, TensorAccount, WeightPool
from vknn.segment import Segment

_log = logging.getLogger("vknn")


@dataclass(eq=False)
class Target:
    """The device that programs are compiled for, and the weights that their plans share.

    ``device`` None: all runs on the host. ``weights``: packed on the host; ``pool``: uploaded.
    ``options``: for lowering; its ``disabled`` names passes, too. ``debug``: level of VKNN_DEBUG.
    ``memory_limit``: bytes that a program may take; None: a share of what is free. ``tensors``: the
    account of results that stay on the device.
    """

    device: Device | None = None
    options: LoweringOptions = field(default_factory=LoweringOptions)
    weights: WeightCache = field(default_factory=WeightCache)
    pool: WeightPool | None = None
    debug: int = 0
    memory_limit: int | None = None
    tensors: TensorAccount = field(init=False)

    def __post_init__(self) -> None:
        budget = MemoryBudget(self.memory_limit, self.device)
        self.tensors = TensorAccount(budget.check_tensors)


def compile_model(
    model: Model,
    types: Mapping[str, TensorType],
    values: Mapping[str, np.ndarray],
    target: Target,
    blobs: Sequence[str] = (),
    outputs: bool = True,
) -> Program:
    """The program of a model for inputs of these types.

    ``blobs``: names of values that are outputs, too; ``outputs`` False: in place of its own.

    ``types``: shape as the user gives it and dtype as the graph takes it, for every input;
    ``values``: the data of those inputs that decide shapes (``model.value_inputs``). Raises
    ShapeError, UnsupportedLayerError, DeviceError.
    """
    graph = model.build(types, values)
    check_layers(graph, target.options.layers)
    if blobs or not outputs:
        kept = (*model.state, *model.variables)
        _show(graph, blobs, kept if not outputs else graph.outputs)
    return compile_graph(graph, target)


def check_layers(graph: Graph, layers: LayerPrecisions | None) -> None:
    """Check that a graph has the layers of which a precision is asked for.

    Where data decide how a network goes on, others may come up later.
    """
    if layers is None:
        return
    layers.learn(node.origin.name for node in graph.nodes)
    unknown = layers.unknown() if graph.continuation is None else {}
    for name, near in unknown.items():
        hint = f"; like it are {', '.join(map(repr, near))}" if near else ""
        more = f" ({len(unknown)} such names)" if len(unknown) > 1 else ""
        raise InputError(f"precision: no layer is called {name!r:.200}, or computes{hint}{more}")


def _show(graph: Graph, blobs: Sequence[str], kept: Iterable[str]) -> None:
    """Makes outputs of a graph's blobs, beside those of its outputs that are kept."""
    if graph.continuation is not None:
        raise InputError(
            f"{', '.join(map(repr, blobs))}: of models whose data decide how they go on (loops, "
            "branches, computed shapes) only the outputs can be asked for"
        )
    for name in blobs:
        if name not in graph.blobs:
            near = difflib.get_close_matches(name, graph.blobs, 3)
            hint = f"; like it are {', '.join(map(repr, near))}" if near else ""
            raise InputError(f"the model has no output and no blob {name!r}{hint}")
    own = {name: graph.outputs[name] for name in kept if name in graph.outputs}
    graph.outputs = {**own, **{name: graph.blobs[name] for name in blobs}}


def compile_graph(graph: Graph, target: Target, *, passes: bool = True) -> Program:
    """The program of a graph. ``passes`` False: it runs as it is, neither checked nor rewritten.

    Raises OutOfMemoryError where it would take more than the memory budget.
    """
    run_limits.check()
    MemoryBudget(target.memory_limit, target.device).check(graph)
    limits = target.device.limits if target.device is not None else None
    keep_values = target.debug >= debug.VALUES
    outline = outlined(graph, limits, target.options, passes=passes, keep_values=keep_values)
    timings = {"plan": 0.0, "prepare": 0.0}
    segments: list[Segment] = []
    try:
        for part in outline.segments:
            run_limits.check()
            if target.device is None or not outline.is_on_device(part):
                MemoryBudget(target.memory_limit).check(part)
                segments.append(Segment(part))
            else:
                segments.append(_prepared(outline, part, target.device, target, timings))
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    execute = debug.traced(target.debug) if target.debug else Segment.run

    def compile_further(graph: Graph, passes: bool) -> Program:
        return compile_graph(graph, target, passes=passes)

    program = Program(outline.parts, segments, timings, compile_further, execute)
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s", _described(program))
    return program


def _described(program: Program) -> str:
    """A program in a line: its inputs, where its nodes run, and how long that took to plan."""
    inputs = ", ".join(f"{v.name} {v.type}" for v in program.graph.inputs) or "no inputs"
    sides = list(program.placement.values())
    dispatches = sum(len(plan.dispatches) for plan in program.plans)
    times = ", ".join(f"{what} {1e3 * s:.1f} ms" for what, s in program.timings.items())
    return (
        f"compiled {program.graph.name!r} for {inputs}: {sides.count('vulkan')} nodes in "
        f"{dispatches} dispatches, {sides.count('host')} on the host; {times}"
    )


def _prepared(
    outline: Outline, graph: Graph, device: Device, target: Target, timings: dict[str, float]
) -> Segment:
    """A segment made ready to run on the device; adds the seconds to ``timings``."""
    start = time.perf_counter()
    plan = outline.lowered(graph, target.weights)
    MemoryBudget(target.memory_limit, device).check_plan(plan, target.tensors.nbytes)
    planned = time.perf_counter()
    segment = Segment(graph, plan, Executable(device, plan, target.pool, tensors=target.tensors))
    timings["plan"] += planned - start
    timings["prepare"] += time.perf_counter() - planned
    if target.debug >= debug.PLANS:
        debug.say_plan(segment)
    return segment
