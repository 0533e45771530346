"""Pending commands: what a plan is assembled from."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kit.emitter import Ref
from vknn.plan import Command


@dataclass(frozen=True, eq=False)
class PendingCommand:
    """A command whose buffer indices point into ``refs``.

    ``inplace``: (input, output) pairs that may share bytes. ``stage``: commands of one stage may
    run side by side; stages run in order.
    """

    command: Command
    refs: tuple[Ref, ...]
    inplace: tuple[tuple[Ref, Ref], ...] = ()
    stage: int = 0
