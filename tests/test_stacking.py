"""Products of one tensor as one dispatch on GPUs: which are stacked, and that results stay."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import run_graph, shared_device, skip_without_half
from tests.lowering.limits import DISCRETE

from vknn.crosscheck.storage import rounded
from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, lower
from vknn.ops.attention import Attention
from vknn.ops.elementwise import Relu
from vknn.ops.matmul import MatMul, Projections
from vknn.plan import DeviceLimits
from vknn.reference import run
from vknn.stacking import stack_products

OPTIONS = LoweringOptions(guard=64)
ROWS, WIDTH = 37, 64


def floats(*shape: int) -> np.ndarray:
    values = np.random.default_rng(sum(shape)).standard_normal(shape) / shape[-1] ** 0.5
    return values.astype(np.float32)


def network() -> Graph:
    """Attentions whose q, k and v are projections of the same tensor, with other products."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(1, ROWS, WIDTH)))
    for layer in range(2):
        parts = []
        for number in range(3):
            b = builder.constant(floats(WIDTH, WIDTH) + np.float32(number + layer) / 100)
            bias = None if number == 1 else builder.constant(floats(WIDTH))
            parts.append(builder.add(MatMul(transpose_b=True), x, b, bias))
        x = builder.add(Attention(2, 0.25), *parts, None)
        x = builder.add(Relu(), builder.add(MatMul(), x, builder.constant(floats(WIDTH, WIDTH))))
    return builder.finish({"y": x})


def stacked(graph: Graph, limits: DeviceLimits = DISCRETE, disabled: str = "") -> Graph:
    options = dataclasses.replace(OPTIONS, disabled=frozenset(disabled.split()))
    return stack_products(graph, limits, options)


def projections(graph: Graph) -> list[int]:
    """How many matrices each has."""
    nodes = [node for node in graph.nodes if isinstance(node.op, Projections)]
    return [(len(node.inputs) - 1) // 2 for node in nodes]


def test_projections_become_one_dispatch() -> None:
    graph = network()
    found = stacked(graph)
    assert projections(found) == [3, 3]
    apart, together = (lower(g, DISCRETE, OPTIONS).dispatches for g in (graph, found))
    assert len(apart) - len(together) == 4


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_results_are_those_of_the_graph(precision: str) -> None:
    if precision != "fp32":
        skip_without_half()
    graph = network()
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    options = dataclasses.replace(OPTIONS, precision=precision)
    found = stack_products(graph, limits, options)
    x = rounded(floats(1, ROWS, WIDTH), precision)
    (expected,) = run(graph, {"x": x}).values()
    (apart,) = run_graph(graph, limits, options, {"x": x}).values()
    (together,) = run_graph(found, limits, options, {"x": x}).values()
    unit = 1e-5 if precision == "fp32" else 4e-3
    assert np.abs(together - expected).max() <= unit * np.abs(expected).max()
    assert np.abs(together - apart).max() <= unit * np.abs(expected).max()
    assert projections(found) == [3, 3]


def test_only_matrices_of_one_size() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(ROWS, WIDTH)))
    results = {}
    for number, width in enumerate((64, 128, 64, 256)):
        results[str(number)] = builder.add(
            Relu(), builder.add(MatMul(), x, builder.constant(floats(WIDTH, width)))
        )
    assert projections(stacked(builder.finish(results))) == [2]


def test_what_stays_apart() -> None:
    graph = network()
    assert stacked(graph, dataclasses.replace(DISCRETE, kind="cpu")) is graph
    assert stacked(graph, disabled="stacking") is graph
    odd = dataclasses.replace(DISCRETE, storage_alignment=1024)  # results are no views there
    assert stacked(graph, odd) is graph
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(ROWS, WIDTH)))
    outputs = [builder.add(MatMul(), x, builder.constant(floats(WIDTH, 64))) for _ in range(2)]
    whole = builder.finish({str(i): v for i, v in enumerate(outputs)})
    assert stacked(whole) is whole
