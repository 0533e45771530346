"""Where a run stands: a stack of places in networks, and what moves it.

The layers of control flow only move this stack; blobs have one scope for the whole model, as the
specification wants it ("visible in the scope of the overall network").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.coreml.records import (
    LayerRecord,
    NetworkRecord,
    conditions,
    read,
    written,
)

#: Rounds of a loop; one that does not end would otherwise run for good.
MAX_ROUNDS = 100_000
CONTROL = frozenset({"branch", "loop", "loopBreak", "loopContinue"})
#: A blob's data, or None where they are not known yet.
Look = Callable[[str], np.ndarray | None]


@dataclass(frozen=True)
class Block:
    """At ``position`` among the layers of a network."""

    network: NetworkRecord
    position: int = 0


@dataclass(frozen=True)
class Rounds:
    """In a loop, ``done`` rounds of at most ``limit`` (None: any number) behind it.

    ``decided``: the condition network has run for the coming round. ``foreign``: the loop was
    entered by someone else, who counts.
    """

    loop: LayerRecord
    done: int = 0
    limit: int | None = None
    decided: bool = False
    foreign: bool = False


Frame = Block | Rounds
Stack = tuple[Frame, ...]


class Undecided(Exception):
    """What comes next depends on a blob whose data are not known yet."""


def current_layer(stack: Stack) -> LayerRecord | None:
    """The layer that is next, or None where a loop or nothing is."""
    top = stack[-1] if stack else None
    if isinstance(top, Block) and top.position < len(top.network.layers):
        return top.network.layers[top.position]
    return None


def advanced(stack: Stack) -> Stack:
    """Behind the layer that is next."""
    top = stack[-1]
    assert isinstance(top, Block)
    return (*stack[:-1], replace(top, position=top.position + 1))


def settled(stack: Stack, look: Look) -> Stack:
    """The stack with an ordinary layer next, or empty at the end.

    Raises Undecided where control flow needs data that ``look`` does not know.
    """
    while stack:
        moved = step(stack, look)
        if moved == stack:
            return stack
        stack = moved
    return stack


def step(stack: Stack, look: Look) -> Stack:
    """One move of control flow; the same stack where an ordinary layer is next."""
    top = stack[-1]
    if isinstance(top, Rounds):
        return _round(stack, top, look)
    if top.position >= len(top.network.layers):
        return stack[:-1]
    layer = top.network.layers[top.position]
    if layer.type == "branch":
        taken = layer.networks[0 if _truth(layer, layer.inputs[0], look) else 1]
        onward = advanced(stack)
        return onward if taken is None else (*onward, Block(taken))
    if layer.type == "loop":
        return (*advanced(stack), Rounds(layer, limit=_limit(layer, look)))
    if layer.type in ("loopBreak", "loopContinue"):
        depth = max(i for i, frame in enumerate(stack) if isinstance(frame, Rounds))
        return stack[: depth + (layer.type == "loopContinue")]
    return stack


def _round(stack: Stack, top: Rounds, look: Look) -> Stack:
    """The condition network, the body, or the end of the loop."""
    if top.foreign:
        raise Undecided
    condition, body = top.loop.networks
    has_condition = has_test(top.loop)
    if has_condition and not top.decided:
        return (*stack[:-1], replace(top, decided=True), Block(condition or NetworkRecord(())))
    go_on = top.limit is None or top.done < top.limit
    if has_condition:
        go_on = _truth(top.loop, top.loop.params.conditionVar, look) and go_on
    if not go_on:
        return stack[:-1]
    if top.done >= MAX_ROUNDS:
        raise ShapeError(f"{top.loop.place} did not end within {MAX_ROUNDS} rounds")
    assert body is not None, "loops without a body are refused when a model is loaded"
    return (*stack[:-1], replace(top, done=top.done + 1, decided=False), Block(body))


def has_test(loop: LayerRecord) -> bool:
    """Whether a condition ends the loop."""
    condition = loop.networks[0]
    return condition is not None and bool(condition.layers or loop.params.conditionVar)


def _limit(loop: LayerRecord, look: Look) -> int | None:
    if loop.inputs:
        count = float(_scalar(loop, loop.inputs[0], look))
        if not np.isfinite(count):
            raise ShapeError(f"{loop.place}: {count} is no number of rounds")
        return max(0, int(count))
    most = int(loop.params.maxLoopIterations)
    return None if has_test(loop) and most == 0 else most


def _truth(layer: LayerRecord, blob: str, look: Look) -> bool:
    return bool(_scalar(layer, blob, look) != 0)


def _scalar(layer: LayerRecord, blob: str, look: Look) -> np.ndarray:
    array = look(blob)
    if array is None:
        raise Undecided
    if array.size != 1:
        raise ShapeError(f"{layer.place}: {blob!r} decides, but has {array.size} values, not 1")
    return array.reshape(-1)[0]


def reads(stack: Stack) -> set[str]:
    """The blobs that may be read from here to the end."""
    found: set[str] = set()
    for frame in stack:
        if isinstance(frame, Block):
            found |= frame.network.reads[frame.position]
        else:
            found |= read(frame.loop)
    return found


def changing(stack: Stack) -> set[str]:
    """The blobs that differ from round to round of the loops that the stack stands in."""
    found: set[str] = set()
    for frame in stack:
        if isinstance(frame, Rounds):
            found |= written(frame.loop)
    return found


def foreign(stack: Stack) -> Stack:
    """The stack without what differs from round to round, for graphs that serve all rounds."""
    return tuple(
        Rounds(f.loop, decided=f.decided, foreign=True) if isinstance(f, Rounds) else f
        for f in stack
    )


def owned(stack: Stack, before: Stack) -> Stack:
    """A stack that grew from ``foreign(before)``, with the counts of ``before``."""
    return tuple(
        before[i] if isinstance(frame, Rounds) and frame.foreign else frame
        for i, frame in enumerate(stack)
    )


def deciding(loop: LayerRecord) -> set[str] | None:
    """The blobs that decide, directly or through others, when a loop without a limit ends.

    None where random numbers are among what decides.
    """
    inside = [layer for network in loop.networks if network for layer in network.everything()]
    wanted = {loop.params.conditionVar}
    if any(layer.type in ("loopBreak", "loopContinue") for layer in inside):
        wanted |= {b for layer in inside if layer.type in CONTROL for b in conditions(layer)}
    while True:
        grown = set(wanted)
        for layer in inside:
            if written(layer) & wanted:
                if layer.draws:
                    return None
                grown |= set(conditions(layer))
        if grown == wanted:
            return wanted
        wanted = grown


def undefined(stack: Stack, blob: str) -> ModelFormatError:
    """The error for a blob that is read on a way through the model that did not make it."""
    layer = current_layer(stack)
    place = layer.place if layer is not None else "the model"
    return ModelFormatError(f"{place} reads {blob!r}, which nothing has made")
