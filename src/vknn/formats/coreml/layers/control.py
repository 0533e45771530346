"""Copy; the layers of control flow themselves are moves of a stack (see ``control_flow``)."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Value


@layer("copy")
def copy(c: Context) -> Value:
    """x; only this layer may write a blob that exists already."""
    return c.x
