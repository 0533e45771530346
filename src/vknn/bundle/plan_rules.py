"""Rules for plans that a runner holds a bundle to, checked before anything is written.

``runner/check.c`` calls what breaks them damage; the export says which layers are in the way. What
plans keep by the way they are made (offsets, roles, ranges of buffers, barriers) is not looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from vknn.bundle.needs import group_size
from vknn.bundle.schema import MOST_BYTES, MOST_PORTS, MOST_WORK
from vknn.errors import ExportError
from vknn.plan import Copy, Dispatch, Fill, Plan, Role

_SMALLER = "give smaller shapes with --shape, or cut the network with --outputs"
#: Layers that are named, at most.
_MOST_NAMED = 3


def check_plan(plan: Plan, ports: int) -> None:
    """Check of what no bundle can have. Raises ExportError with all of it."""
    reasons = [*_no_groups(plan), *_work(plan), *_sizes(plan)]
    if ports > MOST_PORTS:
        reasons.append(f"it has {ports:,} inputs and outputs, at most {MOST_PORTS:,}: cut it up")
    if reasons:
        raise ExportError(reasons)


def _no_groups(plan: Plan) -> Iterator[str]:
    for dispatch in plan.dispatches:
        if not all(0 < count < 1 << 32 for count in dispatch.groups):
            groups = "x".join(map(str, dispatch.groups))
            yield (
                f"{', '.join(dispatch.nodes)}: it has {groups} workgroups; let its groups be 1 or "
                f"more in each axis, or {_SMALLER}"
            )


def _work(plan: Plan) -> Iterator[str]:
    """Invocations of dispatches, and what moves bytes as so many, by the layers with most of it."""
    layers: Counter[str] = Counter()
    for step in plan.steps:
        match step:
            case Dispatch():
                size = math.prod(step.groups) * math.prod(group_size(step))
            case Copy():
                size = step.nbytes // 4
            case Fill():
                size = plan.buffers[step.buffer].nbytes // 4
            case _:
                continue
        layers[", ".join(step.nodes)] += size
    total = layers.total()
    if total > MOST_WORK:
        most = "; ".join(f"{name}: {n:,}" for name, n in layers.most_common(_MOST_NAMED))
        yield (
            f"{most} invocations of shaders, of {total:,} in a run, in a bundle at most "
            f"{MOST_WORK:,}: {_SMALLER}"
        )


def _sizes(plan: Plan) -> Iterator[str]:
    """Bytes of activations, inputs, outputs and weights."""
    weights = sum(b.nbytes for b in plan.buffers if b.role is Role.WEIGHT)
    for role, nbytes in {**plan.arenas, Role.WEIGHT: weights}.items():
        if nbytes > MOST_BYTES:
            largest = max((b for b in plan.buffers if b.role is role), key=lambda b: b.nbytes)
            yield (
                f"{largest.name}: of {nbytes:,} bytes of all {role.value}s it takes "
                f"{largest.nbytes:,}; a bundle has at most {MOST_BYTES:,}: {_SMALLER}"
            )
