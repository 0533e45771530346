"""Input, Const and Memory layers."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.memory import memory_id, reads
from vknn.formats.openvino.registry import layer
from vknn.graph import Value


@layer("Input", inputs=0)
def input_(c: Context) -> Value:
    """An error: inputs that are fed are known before layers are converted."""
    c.fail("is fed by nothing")


@layer("Const", inputs=0)
def const(c: Context) -> Value:
    array = c.blob("custom", c.port().dims)
    if c.layer.blobs["custom"].precision == "BOOL":
        array = array != 0
    return c.constant(array)


@layer("Memory", inputs=(0, 1), outputs=(0, 1))
def memory(c: Context) -> Sequence[Value]:
    """A read gives the state of the previous run; a write sets that of the next run."""
    id_ = memory_id(c.layer)
    if reads(c.layer):
        return [c.read_state(id_)]
    c.write_state(id_, c.x)
    return []
