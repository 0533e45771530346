"""Pairs of a depthwise convolution and one of a tap, in either order, as chains of a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from tests.helpers import (
    check_op,
    run_graph,
    shared_device,
    single_op_graph,
    skip_without_half,
)

from vknn.crosscheck.storage import rounded
from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Clip, Fused, FusedStep, HardSwish, Relu
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(17)
POINTWISE = Conv((1, 1), (0,) * 4, (1, 1))
RELU, RELU6, SWISH = (FusedStep(op, None) for op in (Relu(), Clip(0.0, 6.0), HardSwish()))
#: What begins with the depthwise convolution, and what ends with it.
KINDS = ("separable", "expanded")
#: Strides, pads, dilations; kernel; batch and size of x; channels of x and y.
CASES = {
    "3x3": (((1, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (2, 7, 5), (13, 11)),
    "wide": (((1, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (1, 11, 13), (67, 131)),
    "strided": (((2, 2), (0, 1, 1, 0), (1, 1)), (3, 3), (1, 17, 11), (5, 37)),
    "5x5": (((1, 2), (2, 2, 2, 2), (1, 1)), (5, 5), (1, 13, 9), (23, 7)),
    "dilated": (((1, 1), (2, 3, 2, 3), (2, 3)), (3, 3), (1, 9, 7), (6, 5)),
    "row": (((1, 1), (0, 1, 0, 1), (1, 1)), (1, 3), (3, 1, 37), (9, 257)),
}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def case(
    kind: str, name: str, first: tuple[FusedStep, ...] = (), second: tuple[FusedStep, ...] = ()
) -> tuple[Chain, list[np.ndarray]]:
    """The chain with epilogues, and x, weights, bias, weights and bias."""
    (strides, pads, dilations), kernel, (n, h, w), (c, m) = CASES[name]
    inner = c if kind == "separable" else m
    ops: list[Op] = [Conv(strides, pads, dilations, inner), POINTWISE]
    weights = [floats(inner, 1, *kernel), floats(inner)], [floats(m, c, 1, 1), floats(m)]
    if kind == "expanded":
        ops, weights = ops[::-1], weights[::-1]
    ends = zip(ops, (first, second), strict=True)
    links = tuple(Fused(op, steps) if steps else op for op, steps in ends)
    return Chain(links, (3, 2)), [floats(n, c, h, w), *weights[0], *weights[1]]


def check(kind: str, op: Op, *arrays: np.ndarray, **options: Any) -> None:
    """Comparison of a kind's candidates with NumPy; ``options``: as of check_op."""
    check_op(op, *arrays, **{"kind": "discrete", "only": kind, "access": ("storage",), **options})


def check_sums_in_float16(op: Op, arrays: list[np.ndarray], algorithm: str) -> None:
    """Comparison of a candidate that computes in float16 with NumPy."""
    skip_without_half()
    arrays = [rounded(a) for a in arrays]
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    options = LoweringOptions(precision="fp16", arithmetic="fp16", algorithm=algorithm)
    graph = single_op_graph(op, arrays, range(1, len(arrays)))
    (y,) = run_graph(graph, limits, options, {"x0": arrays[0]}).values()
    (expected,) = op.reference(*arrays)
    assert np.abs(y - expected).max() < 1e-2 * np.abs(expected).max()


def offered(op: Op, arrays: list[np.ndarray], limits: DeviceLimits, **options: str) -> list[str]:
    graph = single_op_graph(op, arrays, tuple(range(1, len(arrays))))
    found = candidates(graph.nodes[0], limits, LoweringOptions(**options))  # type: ignore[arg-type]
    return [c.name for c in found]
