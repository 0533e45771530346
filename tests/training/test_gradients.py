"""Gradients of every op against PyTorch, and against differences of the function itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers import assert_close, shared_device
from tests.training.case import Case
from tests.training.cases import CASES

from vknn import reference
from vknn.compile import Target, compile_graph
from vknn.errors import UnsupportedLayerError
from vknn.graph import Graph, GraphBuilder, TensorType, validate
from vknn.lowering import LoweringOptions, candidates
from vknn.ops import elementwise as e
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.pooling.pool import AdaptiveMaxPool
from vknn.ops.reduction import ReduceSum
from vknn.passes import run_passes
from vknn.training import differentiable_ops, differentiate
from vknn.training.rules import convolution

pytestmark = pytest.mark.long  # finite differences of every op

IDS = [c.name for c in CASES]


def loss_graph(case: Case) -> Graph:
    """The sum of the op's first result times an input "r"."""
    builder = GraphBuilder(case.name)
    values = [
        None if a is None else builder.input(f"x{i}", TensorType.of(a))
        for i, a in enumerate(case.arrays)
    ]
    y, *_ = builder.add_many(case.op, *values)
    r = builder.input("r", y.type)
    loss = builder.add(ReduceSum(keepdims=False), builder.add(e.Mul(), y, r))
    return builder.finish({"loss": loss})


def feeds_of(case: Case, graph: Graph) -> dict[str, np.ndarray]:
    """The arrays of a case, and random factors."""
    feeds = {f"x{i}": a for i, a in enumerate(case.arrays) if a is not None}
    shape = graph.inputs[-1].type.dims
    feeds["r"] = np.asarray(np.random.default_rng(5).standard_normal(shape), np.float32)
    return feeds


def gradient_graph(case: Case) -> Graph:
    """The graph with the gradients of all floats as outputs d0, d1..."""
    graph = loss_graph(case)
    values = {v.name: v for v in graph.inputs}
    wanted = [values[f"x{i}"] for i in case.wanted]
    both = differentiate(graph, "loss", wanted, lambda v: f"d{v.name[1:]}")
    validate(both)
    return both


def expected(case: Case, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What PyTorch says."""
    torch = pytest.importorskip("torch")
    assert case.peer is not None
    tensors: list[Any] = [None if a is None else torch.tensor(a) for a in case.arrays]
    for i in case.wanted:
        tensors[i] = tensors[i].double().requires_grad_()
    given = tensors if tensors[-1] is not None else tensors[: len(tensors) - 1]
    torch.set_default_dtype(torch.float64)
    try:
        y = case.peer(torch, *given)
        (y * torch.tensor(feeds["r"]).reshape(y.shape)).sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    return {f"d{i}": tensors[i].grad.numpy().astype(np.float32) for i in case.wanted}


@pytest.mark.parametrize("case", [c for c in CASES if c.peer], ids=lambda c: c.name)
def test_gradients_are_those_of_pytorch(case: Case) -> None:
    graph = gradient_graph(case)
    feeds = feeds_of(case, graph)
    results = reference.run(graph, feeds)
    for name, array in expected(case, feeds).items():
        assert_close(results[name], array, case.tolerance, f"{case.name}: {name}")


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name.startswith(("conv", "transposed"))], ids=lambda c: c.name
)
def test_gradients_of_weights_as_convolutions(case: Case, monkeypatch: Any) -> None:
    """The form for windows that would take too much memory as a matrix."""
    plain = gradient_graph(case)
    feeds = feeds_of(case, plain)
    expected = reference.run(plain, feeds)
    monkeypatch.setattr(convolution, "COLUMNS", 0)
    found = reference.run(gradient_graph(case), feeds)
    assert_close(found["d1"], expected["d1"], case.tolerance, case.name)


@pytest.mark.parametrize("case", [c for c in CASES if c.smooth], ids=lambda c: c.name)
def test_gradients_are_slopes(case: Case) -> None:
    """Along a random direction the loss changes as the gradients say."""
    graph = gradient_graph(case)
    feeds = feeds_of(case, graph)
    forward = loss_graph(case)
    del forward.outputs["loss"]
    product = forward.nodes[-1].inputs[0]
    forward.outputs["terms"] = product  # added up in float64 below
    results = reference.run(graph, feeds)
    random, step = np.random.default_rng(2), 2e-3
    for i in case.wanted:
        x = feeds[f"x{i}"]
        way = random.choice([-1.0, 1.0], x.shape).astype(np.float32)
        ahead, behind = (
            reference.run(forward, {**feeds, f"x{i}": x + s * way})["terms"].astype(np.float64)
            for s in (np.float32(step), np.float32(-step))
        )
        distance = ((x + np.float32(step) * way) - (x - np.float32(step) * way)).astype(np.float64)
        slope = (ahead - behind).sum()
        told = (results[f"d{i}"].astype(np.float64) * distance).sum()
        scale = (np.abs(results[f"d{i}"]) * np.abs(distance)).sum()
        noise = 3e-7 * np.sqrt((np.abs(ahead) ** 2).sum())
        assert abs(slope - told) <= 5e-3 * scale + noise, f"{case.name}: input {i}"


@pytest.mark.device
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_everything_runs_on_the_device(case: Case) -> None:
    graph = run_passes(gradient_graph(case))
    limits = shared_device().limits
    lacking = [n.op for n in graph.nodes if not candidates(n, limits, LoweringOptions())]
    assert not lacking


#: Each of them is a program to compile: one of a kind.
ON_DEVICE = (
    "conv-5", "conv-7", "transposed-5", "matmul-2-11", "max-pool-3", "average-pool-3-0",
    "batch-norm", "lrn", "prod-zeros", "pad-reflect", "slice-back", "gather-axis", "prelu",
    "pow", "linear", "mvn-add_root",
)  # fmt: skip


@pytest.mark.device
@pytest.mark.parametrize("case", [c for c in CASES if c.name in ON_DEVICE], ids=lambda c: c.name)
def test_the_device_agrees(case: Case) -> None:
    graph = gradient_graph(case)
    feeds = feeds_of(case, graph)
    program = compile_graph(graph, Target(shared_device()))
    try:
        results = program.run(feeds)
    finally:
        program.close()
    for name, array in reference.run(graph, feeds).items():
        assert_close(results[name], array, 2e-5, f"{case.name}: {name}")


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name not in ON_DEVICE], ids=lambda c: c.name
)
def test_the_device_agrees_about_all(case: Case) -> None:
    test_the_device_agrees(case)


def test_every_rule_has_a_case() -> None:
    tested = {type(c.op) for c in CASES}
    assert {op.__name__ for op in differentiable_ops() if op not in tested} == set()


def test_gradients_of_what_is_read_twice_are_added() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((3,)))
    y = builder.add(e.Mul(), builder.add(e.Add(), x, x), x)
    graph = builder.finish({"loss": builder.add(ReduceSum(keepdims=False), y)})
    both = differentiate(graph, "loss", [x], lambda v: "dx")
    array = np.array([1.0, -2.0, 3.0], np.float32)
    np.testing.assert_allclose(reference.run(both, {"x": array})["dx"], 4 * array)


def test_what_the_loss_does_not_depend_on_has_gradient_zero() -> None:
    builder = GraphBuilder()
    x, other = builder.input("x", TensorType((3,))), builder.input("other", TensorType((2, 2)))
    builder.add(e.Exp(), other)
    graph = builder.finish({"loss": builder.add(ReduceSum(keepdims=False), x)})
    both = differentiate(graph, "loss", [x, other], lambda v: f"d{v.name}")
    feeds = {"x": np.ones(3, np.float32), "other": np.ones((2, 2), np.float32)}
    assert not reference.run(both, feeds)["dother"].any()


def test_no_gradient_is_computed_for_what_nobody_wants() -> None:
    builder = GraphBuilder()
    x, w = builder.input("x", TensorType((2, 3))), builder.input("w", TensorType((3, 4)))
    y = builder.add(MatMul(), builder.add(e.Tanh(), x), w)
    graph = builder.finish({"loss": builder.add(ReduceSum(keepdims=False), y)})
    both = run_passes(differentiate(graph, "loss", [w], lambda v: "dw"))
    assert sum(isinstance(n.op, MatMul) for n in both.nodes) == 2


def test_layers_that_cannot_be_trained_through_are_all_named() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((1, 2, 6, 6)))
    y = builder.add(AdaptiveMaxPool((3, 3)), x, name="one")
    y = builder.add(e.Relu(), y)
    y = builder.add(AdaptiveMaxPool((2, 2)), y, name="two")
    graph = builder.finish({"loss": builder.add(ReduceSum(keepdims=False), y)})
    with pytest.raises(UnsupportedLayerError, match="'one'.*no gradient.*'two'") as info:
        differentiate(graph, "loss", [x], lambda v: "dx")
    assert len(info.value.layers) == 2
    before = builder.add(Reshape((3, 24)), x)
    aside = builder.finish({"loss": builder.add(ReduceSum(keepdims=False), before)})
    differentiate(aside, "loss", [x], lambda v: "dx")  # they are not on the way


def test_chains_are_differentiated() -> None:
    """A network of several layers, against differences."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    x = builder.input("x", TensorType((4, 5)))
    w, v = builder.input("w", TensorType((5, 6))), builder.input("v", TensorType((6, 3)))
    hidden = builder.add(e.Swish(), builder.add(MatMul(), x, w))
    y = builder.add(e.Sigmoid(), builder.add(MatMul(), hidden, v))
    graph = builder.finish({"loss": builder.add(ReduceSum(keepdims=False), y), "y": y})
    both = differentiate(graph, "loss", [w, v], lambda value: f"d{value.name}")
    feeds = {i.name: random.standard_normal(i.type.dims).astype(np.float32) for i in graph.inputs}
    results = reference.run(both, feeds)
    for name in "wv":
        moved = [feeds[name] + s * 1e-2 * np.sign(results[f"d{name}"]) for s in (1, -1)]
        ends = [
            reference.run(graph, {**feeds, name: m.astype(np.float32)})["y"].astype(np.float64)
            for m in moved
        ]
        slope = (ends[0] - ends[1]).sum() / 2e-2
        assert slope == pytest.approx(np.abs(results[f"d{name}"]).sum(), rel=2e-3)
