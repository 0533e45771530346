"""Lifetimes of a plan's buffers, and the bytes that they hold meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vknn.plan import Plan, Role, accesses

#: First and last command that need a buffer; None where no command touches it.
Life = tuple[int | None, int | None]


def lifetimes(plan: Plan) -> list[Life]:
    """The life of each buffer. Inputs and weights are there from the first command on, outputs and
    weights to the last."""
    end = max(0, len(plan.commands) - 1)
    lives: dict[int, tuple[int, int]] = {}
    for number, command in enumerate(plan.commands):
        for touched, _ in accesses(command):
            lives[touched] = (lives.get(touched, (number, 0))[0], number)
    found: list[Life] = []
    for index, buffer in enumerate(plan.buffers):
        first, last = lives.get(index, (None, None))
        if first is not None and buffer.role in (Role.INPUT, Role.WEIGHT):
            first = 0
        if last is not None and buffer.role in (Role.OUTPUT, Role.WEIGHT):
            last = end
        found.append((first, last))
    return found


def held_bytes(buffers: Iterable[tuple[str, int, Life]], commands: int) -> np.ndarray:
    """Bytes that are held at each command, int64 [commands], weights apart, which are always there.

    ``buffers``: role, bytes and life of each.
    """
    steps = np.zeros(commands + 1, np.int64)
    for role, nbytes, (first, last) in buffers:
        if role != Role.WEIGHT.value and first is not None and last is not None:
            steps[first] += nbytes
            steps[last + 1] -= nbytes
    return np.cumsum(steps[:-1])


def held_in(plan: Plan) -> np.ndarray:
    """Bytes that are held at each command of a plan, as :func:`held_bytes`."""
    lives = zip(plan.buffers, lifetimes(plan), strict=True)
    return held_bytes(((b.role.value, b.nbytes, life) for b, life in lives), len(plan.commands))
