"""Custom: layers of the user's own that bring a shader."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from vknn.errors import ShapeError, VknnError
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, lane_count, spread
from vknn.ops.custom import Custom, Options, Shader, Shapes
from vknn.plan import DeviceLimits


@lowers(Custom)
def custom(problem: Problem) -> Sequence[Candidate]:
    """One dispatch of the user's shader, where there is one and the device can run it."""
    op = problem.op
    assert isinstance(op, Custom)
    shader = op.layer.shader
    inputs, outputs = problem.inputs, problem.outputs
    if shader is None or len(inputs) + len(outputs) > problem.limits.max_storage_buffers:
        return []
    if problem.options.half and not shader.knows(problem.options.precision):
        return []
    own = [t.dims for t in inputs[: len(inputs) - len(op.weights)] if t is not None]
    made = [t.dims for t in outputs]
    options = dict(op.options)
    try:
        size = _size(shader, own, made, options, problem.limits)
        push = list(shader.push(own, made, options)) if shader.push else [math.prod(made[0])]
    except VknnError:
        raise
    except Exception as error:
        raise ShapeError(
            f"custom layer {op.layer.name}: its functions for the shader failed: "
            f"{type(error).__name__}: {error}"
        ) from error
    if size is None:
        return []
    most = problem.limits.max_push_constants
    if 4 * len(push) > most:
        raise ShapeError(
            f"custom layer {op.layer.name}: {4 * len(push)} bytes of push constants; "
            f"this device has room for {most}"
        )
    name = f"custom/{op.layer.name}"
    emit = functools.partial(_emit, name=name, source=shader.glsl, size=size, push=push)
    work = sum(t.size for t in [*inputs, *outputs] if t is not None)
    layouts = (Layout.LINEAR,) * len(inputs), (Layout.LINEAR,) * len(outputs)
    machine = problem.machine
    return [Candidate("shader", *layouts, emit, machine.dispatch + 4 * work * machine.byte)]


def _emit(
    emitter: Emitter,
    name: str,
    source: str,
    size: tuple[tuple[int, int, int], tuple[int, int, int]],
    push: Sequence[int | float],
) -> None:
    groups, local = size
    emitter.dispatch(
        name,
        [*map(read1, map(emitter.input, range(len(emitter.inputs)))), *map(write, emitter.outputs)],
        groups=groups,
        local=local,
        push=push,
        access="storage",
        source=source,
    )


def _size(
    shader: Shader, inputs: Shapes, outputs: Shapes, options: Options, limits: DeviceLimits
) -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
    """Workgroups and their size; None where the device allows no such ones."""
    if shader.groups is not None:
        x, y, z = shader.groups(inputs, outputs, options)
        groups, local = (int(x), int(y), int(z)), shader.local
        sizes = zip(groups, limits.max_group_count, strict=True)
        small = all(0 < n <= most for n, most in sizes)
        slim = all(0 < n <= m for n, m in zip(local, limits.max_group_size, strict=True))
        return (groups, local) if small and slim and _few(local, limits) else None
    lanes = shader.lanes(inputs, outputs, options) if shader.lanes else math.prod(outputs[0])
    size = lane_count(limits)
    count = max(1, ceil_div(int(lanes), size))
    return (spread(count, limits), (size, 1, 1)) if fits(count, limits) else None


def _few(local: tuple[int, int, int], limits: DeviceLimits) -> bool:
    return math.prod(local) <= limits.max_group_invocations
