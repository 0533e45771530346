"""Counters: words of a plan that are 0 when it begins, for workgroups to count in."""

from __future__ import annotations

from dataclasses import dataclass, field

from vknn.lowering.kit.emitter import Ref
from vknn.lowering.kit.layouts import buffer_bytes, ceil_div


@dataclass(eq=False)
class Counters:
    """Counters of all nodes of a plan in one buffer, so that one fill is enough for all.

    ``alignment``: at which each node's begin. ``root``: the buffer.
    """

    alignment: int
    root: Ref = field(default_factory=lambda: Ref("counters", 0, is_float=False))

    def take(self, count: int) -> Ref:
        """``count`` counters for one dispatch, each a word."""
        start = ceil_div(self.root.nbytes, self.alignment) * self.alignment
        nbytes = buffer_bytes(count, 4)
        self.root.nbytes = start + nbytes
        return Ref(f"+{start}", nbytes, False, parent=self.root, offset=start, is_window=True)
