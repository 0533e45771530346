"""Verdict of trying a case: that nothing fails, or what does, and whether two fail alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: The kinds of outcomes, and what they mean. The first two are no failures.
KINDS = {
    "agrees": "the device agrees with NumPy",
    "unchecked": "no operator ran on a Vulkan device",
    "wrong": "results are out of tolerance",
    "rewritten": "the passes make a graph that computes something else",
    "error": "an error was raised",
    "died": "the process was ended",
    "hung": "it did not end in time",
    "exit": "the command's exit code is not 0",
}


@dataclass(frozen=True)
class Verdict:
    """Verdict of trying a case.

    Attributes:
        kind: A key of ``KINDS``.
        text: What was seen, in a line.
        detail: What two failures of a kind have in common: the error's class, the exit code or
            signal, for "wrong" whether an operator is wrong by itself; empty where there is none.
        layers: The layer at which it begins, as the rewritten graph names it ("a+b" where it
            is several in one); empty where none is known.
        operator: The operator of that layer.
        kernels: Labels of the kernels that ran, such as "Conv tile2x4"; the wrong layer's where
            one is known.
        choices: Choices of ``vknn tune`` that concern the model, candidates by key.
    """

    kind: str
    text: str
    detail: str = ""
    layers: str = ""
    operator: str = ""
    kernels: tuple[str, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        """Whether anything fails."""
        return self.kind not in ("agrees", "unchecked")

    def is_like(self, other: Verdict) -> bool:
        """Whether both fail in the same way: the same kind, and the same of what it is about."""
        if not self.fails or self.kind != other.kind or self.detail != other.detail:
            return False
        if self.kind != "wrong":  # of others the layer is a guess
            return True
        return not self.layers or not other.layers or bool(names_of(self) & names_of(other))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def names_of(outcome: Verdict) -> set[str]:
    """Names that the layers of an outcome may be called in the graph as it was read.

    Joined layers have names with "+" between them, which names may have, too.
    """
    parts = outcome.layers.split("+")
    count = len(parts)
    return {"+".join(parts[i:j]) for i in range(count) for j in range(i + 1, count + 1)}
