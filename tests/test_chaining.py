"""Chains of nodes on GPUs: which are joined, and that whole graphs still give what NumPy gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from tests.helpers import run_graph, shared_device, skip_without_half
from tests.lowering.limits import DISCRETE

from vknn.chaining import chain_choices, chain_nodes
from vknn.crosscheck.comparison import compare
from vknn.crosscheck.storage import rounded
from vknn.crosscheck.tolerance import allowances
from vknn.graph import Graph, GraphBuilder, TensorType, Value
from vknn.lowering import LoweringOptions
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Mul, Relu, Sigmoid
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.ops.normalization import LayerNormalization
from vknn.ops.pooling.pool import GlobalAveragePool
from vknn.ops.recurrent.rnn import GRU
from vknn.ops.reduction import Softmax
from vknn.passes.chains import unchain
from vknn.plan import DeviceLimits
from vknn.reference import run

OPTIONS = LoweringOptions(guard=64)
FIVE_BUFFERS = dataclasses.replace(DISCRETE, max_storage_buffers=5)
CONV = Conv((1, 1), (0,) * 4, (1, 1))
RELU, SIGMOID = (FusedStep(op, None) for op in (Relu(), Sigmoid()))
CHANNELS, HIDDEN = 37, 11
DEPTHWISE = Conv((1, 1), (1, 1, 1, 1), (1, 1), CHANNELS)


def floats(*shape: int) -> np.ndarray:
    values = np.random.default_rng(sum(shape)).standard_normal(shape) / shape[-1] ** 0.5
    return values.astype(np.float32)


def block(builder: GraphBuilder, x: Value, *, by_rows: bool = False) -> tuple[Value, Value]:
    """A squeeze-and-excitation block and its hidden layer."""
    v = builder.add(GlobalAveragePool(), x)
    layer = CONV
    shapes = [(HIDDEN, CHANNELS, 1, 1), (CHANNELS, HIDDEN, 1, 1)]
    if by_rows:
        v = builder.add(Reshape((1, CHANNELS)), v)
        layer, shapes = MatMul(transpose_b=True), [shape[:2] for shape in shapes]
    first, second = (builder.constant(floats(*shape)) for shape in shapes)
    a, b = builder.constant(floats(HIDDEN)), builder.constant(floats(CHANNELS))
    hidden = builder.add(Fused(layer, (RELU,)), v, first, a)
    gate = builder.add(Fused(layer, (SIGMOID,)), hidden, second, b)
    if by_rows:
        gate = builder.add(Reshape((1, CHANNELS, 1, 1)), gate)
    return builder.add(Mul(), x, gate), hidden


def network(*, by_rows: bool = False, outputs_hidden: bool = False) -> Graph:
    """Two blocks, one behind the other."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    y, hidden = block(builder, x, by_rows=by_rows)
    z, _ = block(builder, y, by_rows=by_rows)
    return builder.finish({"z": z} | ({"hidden": hidden} if outputs_hidden else {}))


def chained(graph: Graph, limits: DeviceLimits = DISCRETE, disabled: str = "") -> Graph:
    options = dataclasses.replace(OPTIONS, disabled=frozenset(disabled.split()))
    return chain_nodes(graph, limits, options)


def chains(graph: Graph) -> list[Chain]:
    return [node.op for node in graph.nodes if isinstance(node.op, Chain)]


def check_chained(graph: Graph, found: Graph, precision: str) -> None:
    """Comparison of a graph with chains, as on a GPU, with what NumPy makes of it without."""
    if precision == "fp16":
        skip_without_half()
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    x = rounded(floats(1, CHANNELS, 7, 5))
    options = dataclasses.replace(OPTIONS, precision=precision)
    (y,) = run_graph(found, limits, options, {"x": x}).values()
    expected = run(graph, {"x": x})["y"]
    tolerance = 1e-5 if precision == "fp32" else 4e-3
    assert np.abs(y - expected).max() < tolerance * np.abs(expected).max()
    assert np.array_equal(run(found, {"x": x})["y"], expected)


@pytest.mark.parametrize("by_rows", [False, True])
def test_blocks_become_one_dispatch_each(by_rows: bool) -> None:
    graph = network(by_rows=by_rows)
    found = chained(graph)
    assert len(chains(found)) == 2
    assert isinstance(chains(found)[0].links[0], GlobalAveragePool)
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    x = floats(1, CHANNELS, 7, 5)
    (z,) = run_graph(found, limits, OPTIONS, {"x": x}).values()
    expected = run(graph, {"x": x})["z"]
    assert np.abs(z - expected).max() < 1e-5 * np.abs(expected).max()
    assert np.array_equal(run(found, {"x": x})["z"], expected)


def separables(*, read: bool = False) -> Graph:
    """Two separable convolutions with a sum over both; ``read``: what is between is an output."""
    builder = GraphBuilder()
    x = v = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    outputs = {}
    for number in range(2):
        weights = floats(CHANNELS, 1, 3, 3), floats(CHANNELS, CHANNELS, 1, 1)
        a, b = (builder.constant(w) for w in weights)
        between = builder.add(Fused(DEPTHWISE, (RELU,)), v, a, builder.constant(floats(CHANNELS)))
        steps = (FusedStep(Add(), 0), *((RELU,) if number else ()))
        v = builder.add(Fused(CONV, steps), between, b, builder.constant(floats(CHANNELS)), x)
        outputs |= {f"between{number}": between} if read else {}
    return builder.finish({"y": v, **outputs})


@pytest.mark.host
def test_choices_share_no_nodes_with_chains_elsewhere() -> None:
    """The second block and the end of the first would be a chain, too, were that not in one."""
    builder = GraphBuilder()
    v = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    for _ in range(2):
        a, b = (builder.constant(floats(CHANNELS, *s)) for s in ((1, 3, 3), (CHANNELS, 1, 1)))
        v = builder.add(CONV, builder.add(DEPTHWISE, v, a), b)
    choices = chain_choices(builder.finish({"y": v}), DISCRETE, OPTIONS)
    taken = [choice for choice in choices if choice.taken]
    assert [len(choice.taken) for choice in taken] == [2, 2]
    for choice in choices:
        busy = {n for other in taken if other is not choice for n in other.taken}
        assert all(busy.isdisjoint(run) for run in choice.runs)
        assert len(choice.runs) == len(choice.saved) > 0


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_separable_convolutions_become_one_dispatch_each(precision: str) -> None:
    graph = separables()
    found = chained(graph)
    assert [len(op.links) for op in chains(found)] == [2, 2]
    check_chained(graph, found, precision)


def test_where_separable_convolutions_stay_apart() -> None:
    assert not chains(chained(separables(read=True)))
    assert not chains(chained(separables(), disabled="separable"))


def classifier(*, layers: int = 1, outputs_mean: bool = False) -> Graph:
    """The mean of an image, layers, and a softmax."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    mean = builder.add(GlobalAveragePool(), x)
    v = builder.add(Reshape((1, CHANNELS)), mean)
    for size in [1021] * layers:
        w = floats(size, v.type.dims[1])
        bias = builder.constant(floats(size))
        v = builder.add(MatMul(transpose_b=True), v, builder.constant(w), bias)
    y = builder.add(Softmax(1), v)
    return builder.finish({"y": y} | ({"mean": mean} if outputs_mean else {}))


def test_ends_of_classifiers_become_one_dispatch() -> None:
    graph = classifier()
    found = chained(graph)
    assert [len(op.links) for op in chains(found)] == [4] and len(found.nodes) == 1
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    x = floats(1, CHANNELS, 7, 5)
    (y,) = run_graph(found, limits, OPTIONS, {"x": x}).values()
    expected = run(graph, {"x": x})["y"]
    assert np.abs(y - expected).max() < 1e-5 * expected.max()
    assert np.array_equal(run(found, {"x": x})["y"], expected)


def test_where_ends_of_classifiers_are_parted() -> None:
    assert not chains(chained(classifier(), disabled="heads"))
    assert [len(op.links) for op in chains(chained(classifier(outputs_mean=True)))] == [2]
    # Of two layers the mean goes with the first and the softmax with the last.
    found = chained(classifier(layers=2), disabled="gates")
    assert [len(op.links) for op in chains(found)] == [3, 2]


def gated(*, read: bool = False) -> Graph:
    """A block with the projection behind it; ``read``: what the projection reads is an output."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    product, _ = block(builder, x)
    w, bias = builder.constant(floats(HIDDEN, CHANNELS, 1, 1)), builder.constant(floats(HIDDEN))
    y = builder.add(CONV, product, w, bias)
    return builder.finish({"y": y, **({"product": product} if read else {})})


def path(*layers: Conv, read: bool = False) -> Graph:
    """Convolutions one behind the other; ``read``: the first one's result is an output, too."""
    builder = GraphBuilder()
    v = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    values = []
    for op in layers:
        shape = (CHANNELS, 1, 3, 3) if op.group > 1 else (CHANNELS, CHANNELS, 1, 1)
        v = builder.add(Fused(op, (RELU,)), v, builder.constant(floats(*shape)))
        values.append(v)
    return builder.finish({"y": v, **({"first": values[0]} if read else {})})


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_an_expansion_and_the_depthwise_convolution_behind_it(precision: str) -> None:
    graph = path(CONV, DEPTHWISE)
    found = chained(graph)
    assert [len(op.links) for op in chains(found)] == [2]
    check_chained(graph, found, precision)


def residual() -> Graph:
    """An inverted residual block with the sum at its end, and what reads that."""
    builder = GraphBuilder()
    x = v = builder.input("x", TensorType.of(floats(1, CHANNELS, 7, 5)))
    for op in (CONV, DEPTHWISE):
        shape = (CHANNELS, 1, 3, 3) if op.group > 1 else (CHANNELS, CHANNELS, 1, 1)
        v = builder.add(Fused(op, (RELU,)), v, builder.constant(floats(*shape)))
    weights = builder.constant(floats(CHANNELS, CHANNELS, 1, 1))
    v = builder.add(Fused(CONV, (FusedStep(Add(), 0),)), v, weights, x)
    return builder.finish({"y": builder.add(Mul(), v, v)})


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("made", [lambda: path(CONV, DEPTHWISE, CONV), residual])
def test_an_inverted_residual_block(made: Callable[[], Graph], precision: str) -> None:
    graph = made()
    found = chained(graph)
    assert [len(op.links) for op in chains(found)] == [3]
    check_chained(graph, found, precision)


def test_where_blocks_are_no_chain_of_three() -> None:
    """Where what lies between is read elsewhere, where it is switched off, on CPUs."""
    block = path(CONV, DEPTHWISE, CONV)
    cases = [chained(path(CONV, DEPTHWISE, CONV, read=True)), chained(block, disabled="inverted")]
    for found in (*cases, chained(block, dataclasses.replace(DISCRETE, kind="cpu"))):
        assert all(len(op.links) < 3 for op in chains(found))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_projection_multiplies_by_the_gate(precision: str) -> None:
    graph = gated()
    found = chained(graph, FIVE_BUFFERS)
    assert [len(op.links) for op in chains(found)] == [3, 2]
    assert isinstance(chains(found)[1].links[0], Mul)
    check_chained(graph, found, precision)


def test_where_a_projection_stays_apart() -> None:
    """Where its input is read elsewhere, where it is switched off, where a buffer is too many."""
    for graph, disabled in ((gated(read=True), ""), (gated(), "scaled")):
        assert [len(op.links) for op in chains(chained(graph, FIVE_BUFFERS, disabled))] == [3]
    assert [len(op.links) for op in chains(chained(gated()))] == [3]


def test_where_expansions_stay_apart() -> None:
    assert not chains(chained(path(CONV, DEPTHWISE, read=True)))
    assert not chains(chained(path(CONV, DEPTHWISE), disabled="expanded"))


@pytest.mark.parametrize("first", [CONV, DEPTHWISE], ids=["expanded", "separable"])
def test_all_of_a_path_is_joined(first: Conv) -> None:
    """Pairs are taken so that no node is left over, whichever kind begins."""
    second = DEPTHWISE if first is CONV else CONV
    found = chains(chained(path(first, second, first, second), disabled="inverted"))
    assert [op.links[0].base.group for op in found] == [first.group] * 2  # type: ignore[attr-defined]


def test_nodes_of_several_outputs_are_left_alone() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(3, 1, 5)))
    weights = (builder.constant(floats(1, 21, size)) for size in (5, 7))
    y, last = builder.add_many(GRU(), x, *weights)
    graph = builder.finish({"y": y, "last": last})
    assert chained(graph) is graph


def test_where_chains_are_made() -> None:
    graph = network()
    assert chained(graph, dataclasses.replace(DISCRETE, kind="cpu")) is graph
    assert chained(graph, disabled="gates heads") is graph


def test_what_others_read_is_not_hidden() -> None:
    found = chained(network(outputs_hidden=True), disabled="heads")
    assert len(chains(found)) == 1
    assert {value.name for value in found.outputs.values()} <= {
        value.name for node in found.nodes for value in node.outputs
    }


def test_a_chain_and_its_parts() -> None:
    (node, _) = (n for n in chained(network(by_rows=True)).nodes if isinstance(n.op, Chain))
    parts = unchain(node)
    assert [p.op for p in parts] == list(node.op.links)  # type: ignore[attr-defined]
    assert parts[-1].outputs == node.outputs


def test_errors_that_a_chain_is_allowed() -> None:
    """About those of its links: what comes in wrong goes out wrong, by as much as weights say."""
    (node, _) = (n for n in chained(network()).nodes if isinstance(n.op, Chain))
    arrays = [floats(1, CHANNELS, 7, 5), *(v.constant for v in node.inputs[1:] if v is not None)]
    (expected,) = node.op.reference(*arrays)
    (bound,) = allowances(node.op, arrays, [expected])
    exact = node.op.reference(*(a.astype(np.float64) for a in arrays if a is not None))[0]
    assert compare(exact.astype(np.float32), expected, bound).ok
    wrong = expected.copy()
    wrong.flat[3] *= 1.0005
    assert not compare(wrong, expected, bound).ok
    last = node.op.links[-1]
    hidden = floats(1, HIDDEN, 1, 1)
    (alone,) = allowances(last, [hidden, *arrays[3:]], last.reference(hidden, *arrays[3:]))
    assert alone.allowed.max() < bound.allowed.max() < 20 * alone.allowed.max()


GPU = dataclasses.replace(DISCRETE, max_storage_buffers=8)


def encoder(*, normalizations: int = 1) -> Graph:
    """Two products with residual sums that are read on, and normalised; what is behind them."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType.of(floats(37, 52)))
    v, outputs = x, {}
    for layer in range(2):
        b, bias = builder.constant(floats(52, 52)), builder.constant(floats(52))
        x = builder.add(Fused(MatMul(), (FusedStep(Add(), 0),)), v, b, bias, x)
        more = builder.add(Relu(), x)
        for number in range(normalizations):
            scale = builder.constant(floats(52) + np.float32(number))
            v = builder.add(LayerNormalization(-1), x, scale, None)
            outputs[f"v{layer}{number}"] = builder.add(Sigmoid(), v)
        outputs[f"more{layer}"] = more
    return builder.finish({"x": x, **outputs})


@pytest.mark.device
@pytest.mark.parametrize("normalizations", [1, 2])
def test_products_normalise_what_others_read_too(normalizations: int) -> None:
    """Of several normalizations of a product the first is joined; the order stays one of data."""
    graph = encoder(normalizations=normalizations)
    limits = dataclasses.replace(
        shared_device().limits, kind="discrete", max_storage_buffers=8, subgroup_size=8
    )
    found = chain_nodes(graph, limits, OPTIONS)
    assert [op.kept for op in chains(found)] == [(0,), (0,)]
    x = floats(37, 52)
    expected, actual = run(graph, {"x": x}), run_graph(found, limits, OPTIONS, {"x": x})
    for name, y in expected.items():
        assert np.abs(actual[name] - y).max() < 1e-5 * np.abs(y).max()
        assert np.array_equal(run(found, {"x": x})[name], y)


def test_where_normalizations_stay_apart() -> None:
    graph = encoder()
    assert len(chains(chained(graph, GPU))) == 2
    assert not chains(chained(graph, GPU, disabled="normalized"))
    assert not chains(chained(graph, dataclasses.replace(GPU, kind="cpu")))


def test_a_normalised_product_and_its_parts() -> None:
    graph = encoder()
    (node, *_) = [n for n in chained(graph, GPU).nodes if isinstance(n.op, Chain)]
    parts = unchain(node)
    assert [part.op for part in parts] == list(node.op.links)
    assert tuple(part.outputs[0] for part in parts) == node.outputs
