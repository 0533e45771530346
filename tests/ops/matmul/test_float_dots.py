"""Matrix products by dot products of float16, written out for devices without the instruction."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, single_op_graph
from tests.lowering.plan_texts import MATRICES

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.matmul import wide
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.ops.matmul import MatMul
from vknn.plan import DeviceLimits

FEATURES = ("float_dot", "fp16_storage", "fp16_arithmetic")
WRITTEN_OUT = 2
#: Shapes of a and b; k's are steps of 4 of them, or of 16 and a remainder.
PRODUCTS = {
    "a step": ((2, 4), (4, 4)),
    "fewer rows than a tile": ((3, 20), (20, 12)),
    "columns of no whole vec4": ((1, 7, 44), (44, 20)),
    "more columns than a workgroup": ((5, 12), (12, 268)),
    "batches": ((2, 3, 5, 8), (8, 12)),
    "parts, the last short": ((11, 268), (268, 20)),
    "parts, the last empty": ((5, 524), (524, 44)),
}
check = functools.partial(
    check_op,
    kind="discrete",
    access=("storage",),
    only="wide",
    precision="fp16",
    features=FEATURES,
)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def gpu(*features: str) -> DeviceLimits:
    name = f"gpu of {features}"
    return dataclasses.replace(MATRICES, name=name, kind="discrete", features=frozenset(features))


@pytest.fixture
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "FLOAT_DOTS", WRITTEN_OUT)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("name", PRODUCTS)
def test_against_numpy(name: str) -> None:
    a, b = PRODUCTS[name]
    check(MatMul(), floats(*a), floats(*b), constants=(1,))
    check(MatMul(), floats(*a), floats(*b), floats(b[-1]), constants=(1, 2))
    check(MatMul(), floats(*a), floats(*b), floats(b[-1]), constants=(1,))


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("k", [20, 140])
def test_a_constant_that_is_transposed(k: int) -> None:
    check(MatMul(transpose_b=True), floats(5, k), floats(12, k), floats(12), constants=(1, 2))


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("constants", [(1, 2), (1,)], ids=["constant bias", "bias"])
def test_epilogues(constants: tuple[int, ...]) -> None:
    op = Fused(MatMul(), (FusedStep(Relu()), FusedStep(Add(), operand=0)))
    check(op, floats(5, 132), floats(132, 12), floats(12), floats(5, 12), constants=constants)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
def test_sums_are_float32() -> None:
    """What float16 would lose beside a large sum."""
    a, b = np.ones((3, 64), np.float32), np.full((64, 8), 0.25, np.float32)
    a[:, 0], b[0] = 64, 64
    assert (a @ b).max() == 4096 + 63 / 4
    check(MatMul(), a, b, constants=(1,), tolerance=0)


@pytest.mark.host
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
def test_taken_where_the_device_has_them(arithmetic: str) -> None:
    graph = single_op_graph(MatMul(), [floats(13, 268), floats(268, 20)], (1,))
    options = LoweringOptions(precision="fp16", arithmetic=arithmetic)
    cost = {}
    for features, dots in ((FEATURES, "1"), (FEATURES[1:], None)):
        found = {c.name: c.cost for c in candidates(graph.nodes[0], gpu(*features), options)}
        plan = lower(graph, gpu(*features), dataclasses.replace(options, algorithm="wide8"))
        (dispatch,) = plan.dispatches
        assert dict(dispatch.variant).get("DOTS") == dots
        cost[dots] = found["wide8"]
    assert cost["1"] < cost[None]


@pytest.mark.host
def test_not_taken_for_other_factors_and_precisions() -> None:
    for constants, precision in (((1,), "fp32"), ((), "fp16"), ((0,), "fp16")):
        graph = single_op_graph(MatMul(), [floats(13, 268), floats(268, 20)], constants)
        options = LoweringOptions(precision=precision)
        for c in candidates(graph.nodes[0], gpu(*FEATURES), options):
            plan = lower(graph, gpu(*FEATURES), dataclasses.replace(options, algorithm=c.name))
            assert not any("DOTS" in dict(d.variant) for d in plan.dispatches), c.name
