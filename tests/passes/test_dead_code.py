from __future__ import annotations

from vknn.graph import GraphBuilder, TensorType
from vknn.ops.elementwise import Neg, Relu
from vknn.passes.dead_code import remove_dead_code


def test_what_no_output_needs_goes(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    unread = g.input("unread", TensorType((2,)))
    g.add(Neg(), g.add(Relu(), unread))
    y = g.add(Relu(), x, name="y")
    g.add(Neg(), y)
    becomes(
        g.finish({"y": y}),
        remove_dead_code,
        """
        y: float32[2] = Relu()(x)
        output y = y
        """,
    )
