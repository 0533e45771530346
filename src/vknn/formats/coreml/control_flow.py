"""Control flow of a network: branch, loop, loopBreak and loopContinue as moves of a call stack.

A stack of frames says which layer is next. The layers of control flow only move this stack; blobs
have one scope for the whole model, as the specification has it ("visible in the scope of the
overall network").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.coreml.records import (
    LayerRecord,
    NetworkRecord,
    blobs_read,
    blobs_written,
    conditions,
)

#: The most iterations of one loop; a loop that never ends would otherwise run for good.
MAX_ITERATIONS = 100_000
#: The largest absolute value of a condition that is false: those close to 0 are, NaN is as well.
_ZERO = 1e-6
CONTROL = frozenset({"branch", "loop", "loopBreak", "loopContinue"})
#: Blob name -> its data, or None where they are not known yet.
Lookup = Callable[[str], np.ndarray | None]


@dataclass(frozen=True)
class NetworkFrame:
    """A network whose layer at ``position`` is next."""

    network: NetworkRecord
    position: int = 0


@dataclass(frozen=True)
class LoopFrame:
    """A loop after ``done`` iterations, of at most ``limit`` (None: no limit).

    ``tested``: the condition network has run for the coming iteration. ``uncounted``: ``done`` and
    ``limit`` are left out, see :func:`without_counts`.
    """

    loop: LayerRecord
    done: int = 0
    limit: int | None = None
    tested: bool = False
    uncounted: bool = False


Frame = NetworkFrame | LoopFrame
Stack = tuple[Frame, ...]


class Undecided(Exception):
    """The next layer depends on a blob whose data are not known yet."""


def current_layer(stack: Stack) -> LayerRecord | None:
    """The layer that runs next; None at the end of a network and where a loop decides."""
    top = stack[-1] if stack else None
    if isinstance(top, NetworkFrame) and top.position < len(top.network.layers):
        return top.network.layers[top.position]
    return None


def after_layer(stack: Stack) -> Stack:
    """The stack after the current layer has run."""
    top = stack[-1]
    assert isinstance(top, NetworkFrame)
    return (*stack[:-1], replace(top, position=top.position + 1))


def step(stack: Stack, lookup: Lookup) -> Stack:
    """One move of control flow; the same stack where an ordinary layer is next.

    Raises Undecided where the move needs data that ``lookup`` does not know.
    """
    top = stack[-1]
    if isinstance(top, LoopFrame):
        return _iteration(stack, top, lookup)
    if top.position >= len(top.network.layers):
        return stack[:-1]
    layer = top.network.layers[top.position]
    if layer.type == "branch":
        taken = layer.networks[0 if _is_true(layer, layer.inputs[0], lookup) else 1]
        following = after_layer(stack)
        return following if taken is None else (*following, NetworkFrame(taken))
    if layer.type == "loop":
        return (*after_layer(stack), LoopFrame(layer, limit=_limit(layer, lookup)))
    if layer.type in ("loopBreak", "loopContinue"):
        depth = max(i for i, frame in enumerate(stack) if isinstance(frame, LoopFrame))
        return stack[: depth + (layer.type == "loopContinue")]
    return stack


def _iteration(stack: Stack, top: LoopFrame, lookup: Lookup) -> Stack:
    """The stack inside the loop's condition network or body, or behind the loop."""
    if top.uncounted:
        raise Undecided
    condition, body = top.loop.networks
    conditional = has_condition(top.loop)
    if conditional and not top.tested:
        test = NetworkFrame(condition or NetworkRecord(()))
        return (*stack[:-1], replace(top, tested=True), test)
    go_on = top.limit is None or top.done < top.limit
    if conditional:
        go_on = _is_true(top.loop, top.loop.params.conditionVar, lookup) and go_on
    if not go_on:
        return stack[:-1]
    if top.done >= MAX_ITERATIONS:
        raise ShapeError(f"{top.loop.place} did not end within {MAX_ITERATIONS} iterations")
    assert body is not None, "loops without a body are refused when a model is loaded"
    return (*stack[:-1], replace(top, done=top.done + 1, tested=False), NetworkFrame(body))


def has_condition(loop: LayerRecord) -> bool:
    """Whether a loop has a condition, besides a limit of its iterations."""
    condition = loop.networks[0]
    return condition is not None and bool(condition.layers or loop.params.conditionVar)


def _limit(loop: LayerRecord, lookup: Lookup) -> int | None:
    if loop.inputs:
        count = float(_scalar(loop, loop.inputs[0], lookup))
        if not np.isfinite(count):
            raise ShapeError(f"{loop.place}: {count} is no number of iterations")
        return max(0, int(count))
    most = int(loop.params.maxLoopIterations)
    return None if has_condition(loop) and most == 0 else most


def _is_true(layer: LayerRecord, blob: str, lookup: Lookup) -> bool:
    """Whether the number that decides is further from 0 than numbers that count as 0 are."""
    return bool(abs(_scalar(layer, blob, lookup)) > _ZERO)


def _scalar(layer: LayerRecord, blob: str, lookup: Lookup) -> np.ndarray:
    array = lookup(blob)
    if array is None:
        raise Undecided
    if array.size != 1:
        raise ShapeError(f"{layer.place}: {blob!r} decides, but has {array.size} values, not 1")
    return array.reshape(-1)[0]


def blobs_read_from(stack: Stack) -> set[str]:
    """The blobs that layers from the top of the stack to the end may read."""
    found: set[str] = set()
    for frame in stack:
        if isinstance(frame, NetworkFrame):
            found |= frame.network.read_from(frame.position)
        else:
            found |= blobs_read(frame.loop)
    return found


def blobs_changed_by_loops(stack: Stack) -> set[str]:
    """The blobs that may differ between iterations of the loops on the stack."""
    found: set[str] = set()
    for frame in stack:
        if isinstance(frame, LoopFrame):
            found |= blobs_written(frame.loop)
    return found


def without_counts(stack: Stack) -> Stack:
    """The stack without numbers of iterations, so that one graph serves all iterations."""
    return tuple(
        LoopFrame(f.loop, tested=f.tested, uncounted=True) if isinstance(f, LoopFrame) else f
        for f in stack
    )


def with_counts(stack: Stack, before: Stack) -> Stack:
    """A stack that grew from ``without_counts(before)``, with the numbers of ``before``."""
    return tuple(
        before[i] if isinstance(frame, LoopFrame) and frame.uncounted else frame
        for i, frame in enumerate(stack)
    )


def condition_blobs(loop: LayerRecord) -> set[str] | None:
    """The blobs on which, directly or through others, the end of a loop without a limit depends.

    None where it depends on random numbers.
    """
    inside = [layer for network in loop.networks if network for layer in network.all_layers()]
    wanted = {loop.params.conditionVar}
    if any(layer.type in ("loopBreak", "loopContinue") for layer in inside):
        wanted |= {b for layer in inside if layer.type in CONTROL for b in conditions(layer)}
    while True:
        grown = set(wanted)
        for layer in inside:
            if blobs_written(layer) & wanted:
                if layer.draws:
                    return None
                grown |= set(conditions(layer))
        if grown == wanted:
            return wanted
        wanted = grown


def undefined_blob(stack: Stack, blob: str) -> ModelFormatError:
    """The error for a blob that is read on a path through the model that has not written it."""
    layer = current_layer(stack)
    place = layer.place if layer is not None else "the model"
    return ModelFormatError(f"{place} reads {blob!r}, which nothing has made")
