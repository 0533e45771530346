"""DispatchChoice of a dispatch: those of a model that was run, by number and by layer."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import DeviceError, InputError
from vknn.plan import Dispatch, Plan
from vknn.printable import one_line
from vknn.segment import Segment
from vknn.session import Session, engine_of

#: Lines of choices in an error.
MOST_LINES = 40


@dataclass(frozen=True, eq=False)
class CapturedSegment:
    """A segment of a network as it ran: its plan, and the arrays that it was given."""

    segment: Segment
    plan: Plan
    feeds: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class DispatchChoice:
    """A dispatch of a network.

    Attributes:
        number: Its number among the dispatches of a run, in order.
        run: The segment that it is of.
        step: Its index among the plan's steps.
        dispatch: The dispatch.
    """

    number: int
    run: CapturedSegment
    step: int
    dispatch: Dispatch

    def is_of(self, layer: str) -> bool:
        """Whether it computes the layer, by itself or joined to others."""
        nodes = self.dispatch.nodes
        return layer in nodes or any(layer in node.split("+") for node in nodes)

    def line(self) -> str:
        """The choice in a line."""
        d = self.dispatch
        groups = "x".join(map(str, d.groups))
        return f"{self.number:5} {', '.join(d.nodes) or '-'}: {d.kernel} {d.label} [{groups}]"


def runs_of(session: Session, feeds: Mapping[str, np.ndarray]) -> list[CapturedSegment]:
    """The segments on the device that a run of the model goes through, each once, in order.

    Those of loops and of parts behind computed shapes are among them, as they ran first.
    """
    if session.device is None:
        raise DeviceError("a kernel is extracted on a Vulkan device: NumPy has no kernels")
    engine = engine_of(session)
    seen: dict[int, CapturedSegment] = {}
    kept: list[Segment] = []  # so that no id comes twice

    def watched(segment: Segment, arrays: Mapping[str, Any]) -> dict[str, Any]:
        if segment.plan is not None and id(segment) not in seen:
            copies = {name: np.array(a) for name, a in arrays.items()}
            seen[id(segment)] = CapturedSegment(segment, segment.plan, copies)
            kept.append(segment)
        return segment.run(arrays)

    engine.program(feeds).run(engine.encode(feeds), watched)
    return list(seen.values())


def all_choices(runs: Sequence[CapturedSegment]) -> list[DispatchChoice]:
    """The dispatches of segments."""
    found: list[DispatchChoice] = []
    for run in runs:
        for step, command in enumerate(run.plan.steps):
            if isinstance(command, Dispatch):
                found.append(DispatchChoice(len(found), run, step, command))
    return found


class NoSingleDispatchError(InputError):
    """There is no dispatch as asked for, or there are several.

    Attributes:
        summary: The reason in a line.
        lines: The dispatches that there are to choose from, a line each.
    """

    def __init__(self, summary: str, choices: Sequence[DispatchChoice]) -> None:
        self.summary, self.lines = summary, _listed(choices)
        super().__init__("\n".join([summary, *self.lines]))


def chosen(
    choices: Sequence[DispatchChoice], layer: str | None, number: int | None
) -> DispatchChoice:
    """The dispatch of a layer, or with a number.

    Raises NoSingleDispatchError where there is no such dispatch, or several are.
    """
    if not choices:
        raise InputError("no layer of this model runs on the device: there is nothing to extract")
    fitting = [c for c in choices if layer is None or c.is_of(layer)]
    of = "the model" if layer is None else f"layer {layer!r}"
    if not fitting:
        names = {part for c in choices for node in c.dispatch.nodes for part in node.split("+")}
        near = difflib.get_close_matches(layer or "", sorted(names), 3)
        hint = f"; like it are {', '.join(map(repr, near))}" if near else ""
        raise NoSingleDispatchError(f"no dispatch computes {of}{hint}", choices)
    if number is not None:
        found = [c for c in fitting if c.number == number]
        if not found:
            raise NoSingleDispatchError(f"{of} has no dispatch {number}", fitting)
        return found[0]
    if len(fitting) > 1:
        summary = f"{of} has {len(fitting)} dispatches: choose one with --dispatch (dispatch=)"
        raise NoSingleDispatchError(summary, fitting)
    return fitting[0]


def _listed(choices: Sequence[DispatchChoice]) -> list[str]:
    lines = [one_line(choice.line()) for choice in choices[:MOST_LINES]]
    more = len(choices) - len(lines)
    return lines + ([f"and {more} more"] if more > 0 else [])
