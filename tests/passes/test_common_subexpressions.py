from __future__ import annotations

import numpy as np

from vknn.graph import GraphBuilder, TensorType
from vknn.ops.elementwise import Add, LeakyRelu, Neg, Relu, Sub
from vknn.passes.common_subexpressions import merge_common_subexpressions


def test_equal_work_is_done_once(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    array = np.ones(2, np.float32)
    a, b = (g.add(Neg(), g.add(Add(), x, g.constant(array))) for _ in range(2))
    becomes(
        g.finish({"y": g.add(Sub(), a, b)}),
        merge_common_subexpressions,
        """
        Add: float32[2] = Add()(x, const float32[2])
        Neg: float32[2] = Neg()(Add)
        Sub: float32[2] = Sub()(Neg, Neg)
        output y = Sub
        """,
    )


def test_other_attributes_inputs_or_order_are_other_work(stays) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    values = [g.add(op, x) for op in (LeakyRelu(0.1), LeakyRelu(0.2), Relu())]
    values.append(g.add(Sub(), values[0], values[1]))
    values.append(g.add(Sub(), values[1], values[0]))
    graph = g.finish({str(i): v for i, v in enumerate(values)})
    stays(graph, merge_common_subexpressions)
