"""Sources and copies of blobs: Input, MemoryData, Split, Noop, DeepCopy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import ANY, layer, same_type
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes

INPUT = "Input"
#: Layers whose outputs are their inputs.
ALIASES = frozenset({"DeepCopy", "Noop", "Split"})
_TAGGED, _UNTAGGED = 0, 1


@layer(INPUT, inputs=0)
def input_(c: Context[Any]) -> Value:
    """Placeholder: the model makes the inputs of graphs; the layer's sizes are only hints."""
    raise AssertionError("Input layers are not converted")


@attributes
class MemoryDataParams(Params):
    """Parameters of MemoryData."""

    w: int = param(0)
    h: int = param(1)
    d: int = param(11)
    c: int = param(2)
    load_type: int = param(21, _UNTAGGED)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape, outermost first; its rank follows from the outermost size given."""
        if self.d:
            return self.c, self.d, self.h, self.w
        if self.c:
            return self.c, self.h, self.w
        return (self.h, self.w) if self.h else (self.w,)

    def check(self) -> None:
        require(all(n > 0 for n in self.sizes), f"shape {list(self.sizes)} has no elements")
        require(self.load_type in (_TAGGED, _UNTAGGED), f"unknown load_type {self.load_type}")


@layer(
    "MemoryData",
    params=MemoryDataParams,
    weights=lambda p: [WeightSpec("data", p.sizes, tagged=p.load_type == _TAGGED)],
    inputs=0,
    result=same_type,
)
def memory_data(c: Context[MemoryDataParams]) -> Value:
    """Array stored in the .bin."""
    data = c.weight("data")
    return c.constant(data[None], "data")


@layer("Split", outputs=(1, None), accepts=ANY, result=same_type, batched=lambda p: True)
def split(c: Context[Any]) -> Sequence[Value]:
    """The input itself, for each output."""
    return [c.x] * len(c.record.tops)


@layer(
    "Noop",
    inputs=(1, None),
    outputs=(1, None),
    accepts=ANY,
    result=same_type,
    batched=lambda p: True,
)
def noop(c: Context[Any]) -> Sequence[Value]:
    """The first inputs themselves; the others are unused."""
    c.require(len(c.record.tops) <= len(c.inputs), "has more outputs than inputs")
    return list(c.inputs[: len(c.record.tops)])


@layer("DeepCopy", accepts=ANY, result=same_type, batched=lambda p: True)
def deep_copy(c: Context[Any]) -> Value:
    """The input itself."""
    return c.x
