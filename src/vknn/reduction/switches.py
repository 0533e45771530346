"""Switches that bisection turns: what VKNN_DISABLE can name, the narrow ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vknn import environment
from vknn.lowering.choose.candidates import kernel_switch
from vknn.passes import PASSES
from vknn.reduction.verdict import Verdict
from vknn.runtime.tuning_database import tuned_switch

#: What runs without a kernel of its own.
NO_KERNELS = ("repack",)


@dataclass(frozen=True)
class PartSwitch:
    """A switch.

    Attributes:
        name: What VKNN_DISABLE calls it.
        kind: "tuned choice", "kernel", "pass" or "feature".
        meaning: What it switches off.
    """

    name: str
    kind: str
    meaning: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} ({self.meaning})"


def switches(failure: Verdict, disabled: frozenset[str]) -> list[PartSwitch]:
    """All switches that may make a difference, without those that are off already.

    Single choices and kernels stand before what switches off many things, so that of several that
    help the narrowest is found.
    """
    passes = {name for name, _ in PASSES}
    found = [
        PartSwitch(tuned_switch(key), "tuned choice", f"{kernel}, measured for {key}")
        for key, kernel in failure.choices.items()
    ]
    for label in failure.kernels:
        op, _, kernel = label.partition(" ")
        if kernel and label not in NO_KERNELS:
            name = kernel_switch(op, kernel)
            found.append(PartSwitch(name, "kernel", f"{kernel} of {op}"))
    for name, meaning in reversed(environment.PARTS.items()):
        kind = "pass" if name in passes else "feature"
        found.append(PartSwitch(name, kind, meaning.removeprefix("pass: ")))
    return [s for s in found if s.name not in disabled]


def decisive(
    every: Sequence[PartSwitch], works: Callable[[Sequence[PartSwitch]], bool]
) -> list[PartSwitch]:
    """A least set of switches with which it works; empty where it does not with all of them.

    ``works`` is asked about log n sets for each switch of the result: the first k switches of a
    list work and the first k - 1 do not, so that the kth is needed beside some of those before it.
    """
    if not works(every):
        return []
    found: list[PartSwitch] = []
    rest = list(every)
    while not found or not works(found):
        fails, passes = 0, len(rest)  # of the first so many, with what was found
        while passes - fails > 1:
            middle = (fails + passes) // 2
            if works([*found, *rest[:middle]]):
                passes = middle
            else:
                fails = middle
        found.append(rest[passes - 1])
        rest = rest[: passes - 1]
        if not rest:
            break
    for switch in list(found):
        fewer = [s for s in found if s is not switch]
        if len(found) > 1 and works(fewer):
            found = fewer
    return found
