"""Products multiplied and added up in float16, 16 at a time (arithmetic "fp16"), against NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from tests.helpers import run_graph, shared_device, single_op_graph, skip_without_half

from vknn.crosscheck.comparison import compare
from vknn.crosscheck.storage import HALF_SUMS, HALF_UNIT, rounded
from vknn.crosscheck.tolerance import allowances
from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.tuned_choices import problem_key
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.ops.matmul import MatMul
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(5)
OPTIONS = LoweringOptions(guard=64, precision="fp16", arithmetic="fp16")
#: Candidates that add up in float32 all the same.
SINGLE = ("row", "scalar", "general", "grouped", "winograd", "depthwise", "cooperative")


@pytest.fixture(autouse=True)
def _device_can() -> None:
    skip_without_half()
    if "fp16_arithmetic" not in shared_device().limits.features:
        pytest.skip(f"{shared_device().name} has no 16-bit arithmetic")


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def limits(kind: str) -> DeviceLimits:
    mode = "image" if kind == "cpu" else "storage"
    return dataclasses.replace(shared_device().limits, kind=kind, preferred_access=mode)


def results(
    op: Op, *arrays: np.ndarray | None, constants: tuple[int, ...] = (), kind: str = "discrete"
) -> Iterator[tuple[str, np.ndarray]]:
    """Name and result of each candidate that adds up in float16."""
    graph = single_op_graph(op, arrays, constants)
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in constants}
    found = candidates(graph.nodes[0], limits(kind), OPTIONS)
    parts = {c.name: c.name.split("-") for c in found}
    names = [name for name in parts if not any(p.startswith(SINGLE) for p in parts[name])]
    assert names
    for name in names:
        options = dataclasses.replace(OPTIONS, algorithm=name)
        plan = lower(graph, limits(kind), options)
        assert any(("HALF_SUMS", "1") in d.variant for d in plan.dispatches), name
        yield name, run_graph(graph, limits(kind), options, feeds)["y0"]


def check(op: Op, *given: np.ndarray | None, **options: object) -> None:
    arrays = [rounded(a) for a in given]
    expected = op.reference(*arrays)  # type: ignore[arg-type]
    (bound,) = allowances(op, arrays, expected, storage=HALF_UNIT, sums=HALF_SUMS)
    for name, y in results(op, *arrays, **options):  # type: ignore[arg-type]
        result = compare(y, expected[0], bound)
        assert result.ok, f"{op} [{name}]: {result}"


@pytest.mark.parametrize("kind", ["discrete", "cpu"])
@pytest.mark.parametrize("a, b", [((5, 36), (36, 12)), ((7, 40), (40, 20)), ((2, 5, 8), (8, 12))])
def test_products(a: tuple[int, ...], b: tuple[int, ...], kind: str) -> None:
    check(MatMul(), floats(*a), floats(*b), floats(b[-1]), constants=(1, 2), kind=kind)
    check(MatMul(), floats(*a), floats(*b), floats(b[-1]), kind=kind)
    check(MatMul(transpose_b=True), floats(*a), floats(*b[::-1]), kind=kind)


def test_products_of_odd_sizes_in_shared_memory() -> None:
    check(MatMul(), floats(5, 37), floats(37, 11), floats(11), constants=(1, 2))
    check(MatMul(transpose_a=True), floats(37, 5), floats(37, 11))


def test_an_epilogue_behind_a_bias() -> None:
    op = Fused(MatMul(), (FusedStep(Add(), operand=0), FusedStep(Relu())))
    check(op, floats(5, 36), floats(36, 12), floats(12), floats(5, 12))


CONVOLUTIONS = {
    "1x1": (Conv((1, 1), (0,) * 4, (1, 1)), (2, 7, 5, 5), (6, 7, 1, 1)),
    "3x3 stride 2": (Conv((2, 2), (1,) * 4, (1, 1)), (1, 5, 9, 8), (13, 5, 3, 3)),
    "groups": (Conv((1, 1), (1,) * 4, (1, 1), 2), (1, 8, 5, 5), (24, 4, 3, 3)),
}


@pytest.mark.parametrize(
    ("name", "kind"), [("1x1", "cpu"), ("3x3 stride 2", "discrete"), ("groups", "discrete")]
)
def test_convolutions(name: str, kind: str) -> None:
    op, x, w = CONVOLUTIONS[name]
    check(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2), kind=kind)


@pytest.mark.parametrize("kind", ["discrete", "cpu"])
def test_sixteen_products_at_a_time(kind: str) -> None:
    """In float16 2048 + 1 is 2048; in float32 it is not."""
    lost, kept = np.ones((2, 16), np.float32), np.zeros((2, 32), np.float32)
    lost[:, 0] = kept[:, 0] = 2048
    kept[:, 16:] = 1
    for a, right in ((lost, 2048), (kept, 2064)):
        k = a.shape[1]
        for name, y in results(MatMul(), a, np.ones((k, 4), np.float32), kind=kind):
            assert np.all(y == right), name
        if kind == "cpu":
            continue  # the same kernel, but for its tiles
        x = a[0].reshape(1, k, 1, 1)
        w = np.ones((4, k, 1, 1), np.float32)
        op = Conv((1, 1), (0,) * 4, (1, 1))
        for name, y in results(op, x, w, constants=(1,), kind=kind):
            assert np.all(y == right), name


def test_tuning_keeps_them_apart() -> None:
    graph = single_op_graph(MatMul(), [floats(5, 8), floats(8, 4)])
    keys = set()
    for options in (LoweringOptions(), LoweringOptions(precision="fp16"), OPTIONS):
        keys.add(problem_key(make_problem(graph.nodes[0], limits("cpu"), options)))
    assert len(keys) == 3
