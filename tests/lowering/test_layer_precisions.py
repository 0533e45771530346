"""Precisions by layer: which layers a mapping means, and plans in which they differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import GUARD_BYTES, run_graph, shared_device, skip_without_half
from tests.lowering.limits import check_limits
from tests.lowering.test_half_plans import HALVES
from tests.lowering.test_plans import CPU, DEVICES, DISCRETE, MINIMUM, NETWORKS, random
from tests.lowering.test_random_graphs import ACCESS_MODES, COMMON, graphs

from vknn.chaining import chain_nodes
from vknn.crosscheck.advice.simulation import Simulation
from vknn.graph import Graph, GraphBuilder, Origin, TensorType
from vknn.lowering import LoweringOptions, check_plan, format_plan, lower
from vknn.lowering.kit.layer_precisions import LayerPrecisions
from vknn.ops.convolution.conv import Conv
from vknn.ops.pooling.pool import GlobalAveragePool
from vknn.plan import Plan
from vknn.runtime.spirv import glsl
from vknn.runtime.spirv.expanded import expanded_kernel


def learned(rules: dict[str, str], names: Iterable[str]) -> LayerPrecisions:
    layers = LayerPrecisions(rules)
    layers.learn(names)
    return layers


def options(graph: Graph, rules: dict[str, str], precision: str = "fp16") -> LoweringOptions:
    names = {node.origin.name for node in graph.nodes}
    return LoweringOptions(precision=precision, layers=learned(rules, names))


def kept(rules: dict[str, str], *names: str) -> list[str]:
    """The names that keep float32."""
    layers = learned(rules, names)
    return [name for name in names if layers.keeps_single(name)]


def test_a_name_counts_before_patterns_and_these_before_the_rest() -> None:
    names = ("conv1", "conv2", "fc")
    assert kept({"conv2": "fp32"}, *names) == ["conv2"]
    assert kept({"*": "fp32", "fc": "fp16"}, *names) == ["conv1", "conv2"]
    assert kept({"conv*": "fp32", "conv1": "fp16"}, *names) == ["conv2"]
    assert kept({"*2": "fp16", "conv*": "fp32", "*": "fp16"}, *names) == ["conv1"]
    assert kept({"[a]": "fp32"}, "[a]", "a") == ["[a]", "a"]
    assert kept({"[a]": "fp32", "a": "fp16"}, "[a]", "a") == ["[a]"]


def test_joined_layers_keep_float32_where_one_does() -> None:
    layers = learned({"relu": "fp32"}, ("conv", "relu", "a+b", "a"))
    assert layers.keeps_single("conv+relu") and not layers.keeps_single("conv+a")
    assert not layers.keeps_single("a+b")
    both = learned({"conv+relu": "fp32"}, ("conv", "relu", "fc"))
    assert [both.keeps_single(n) for n in ("conv", "relu", "conv+relu", "fc")] == [True] * 3 + [
        False
    ]
    # A name with a "+" of its own is no list of layers.
    own = learned({"a+b": "fp32"}, ("a+b", "a", "b"))
    assert own.keeps_single("a+b") and not own.keeps_single("a")


def test_unknown_names_are_told_with_those_like_them() -> None:
    names = ("conv1", "conv2", "pool")
    layers = learned({"*": "fp16", "conv3": "fp32", "conv?": "fp32", "zz*": "fp32"}, names)
    unknown = layers.unknown()
    assert set(unknown) == {"conv3", "zz*"}
    assert set(unknown["conv3"]) == {"conv1", "conv2"}
    assert not learned({"conv1+pool": "fp32"}, names).unknown()


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("network", NETWORKS)
def test_plans_of_one_precision_are_those_without_a_mapping(
    network: str, device: str, precision: str
) -> None:
    graph, limits = NETWORKS[network](), DEVICES[device]
    names = [node.origin.name for node in graph.nodes]
    for rules, alike in (
        (dict.fromkeys(names, "fp32"), "fp32"),
        ({"*": precision}, precision),
    ):
        mixed = lower(graph, limits, options(graph, rules, precision))
        assert format_plan(mixed) == format_plan(
            lower(graph, limits, LoweringOptions(precision=alike))
        )


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("network", NETWORKS)
def test_mixed_plans_are_sound(network: str, device: str, precision: str) -> None:
    graph, limits = NETWORKS[network](), DEVICES[device]
    names = list(dict.fromkeys(node.origin.name for node in graph.nodes))
    for begin in (0, 1):
        rules = dict.fromkeys(names[begin::2], "fp32")
        plan = lower(graph, limits, options(graph, rules, precision))
        check_mixed(plan)
        check_limits(plan, limits)
        kinds = {node.origin.name: node.origin.name in rules for node in graph.nodes}
        for dispatch in plan.dispatches:
            if dispatch.label in ("convert", "repack"):
                continue  # called by their tensors
            single = [kinds[name] for name in dispatch.nodes if name in kinds]
            if any(single):
                assert "HALF" not in dict(dispatch.variant)
            elif single:
                assert "HALF" in dict(dispatch.variant)


def check_mixed(plan: Plan) -> None:
    check_plan(plan)
    for dispatch in plan.dispatches:
        listed = expanded_kernel(glsl.source_root(), dispatch.kernel).variants
        glsl.check_variant(listed, dispatch.kernel, dispatch.variant)


def test_what_lies_between_is_converted_once() -> None:
    graph = NETWORKS["classifier"]()
    names = [node.origin.name for node in graph.nodes]
    rules = {name: "fp32" for name in names if "conv2" in name}
    plan = lower(graph, CPU, options(graph, rules))
    # The first convolution's result, which the second reads twice, and the second's.
    assert [d.label for d in plan.dispatches].count("convert") == 2
    widths = [dict(d.variant)["WIDENS"] for d in plan.dispatches if d.label == "convert"]
    assert widths == ["1", "0"]


def test_an_input_stays_float32_for_layers_that_do() -> None:
    graph = NETWORKS["classifier"]()
    first = graph.nodes[0].origin.name
    plan = lower(graph, CPU, options(graph, {first: "fp32"}))
    assert [port.width for port in plan.inputs.values()] == [4]
    assert [port.width for port in plan.outputs.values()] == [2]
    last = graph.nodes[-1].origin.name
    plan = lower(graph, CPU, options(graph, {last: "fp32"}))
    assert [port.width for port in plan.inputs.values()] == [2]
    assert [port.width for port in plan.outputs.values()] == [4]


def test_no_chain_takes_layers_of_both() -> None:
    g = GraphBuilder("head")
    x = g.input("x", TensorType((1, 64, 7, 7)))
    mean = g.add(GlobalAveragePool(), x, origin=Origin("mean", "Pooling"))
    weights = g.constant(random(10, 64, 1, 1))
    conv = Conv((1, 1), (0, 0, 0, 0), (1, 1))
    y = g.add(conv, mean, weights, None, origin=Origin("fc", "Convolution"))
    graph = g.finish({"y": y})
    plain = LoweringOptions(precision="fp16")
    assert len(chain_nodes(graph, DISCRETE, plain).nodes) == 1
    assert len(chain_nodes(graph, DISCRETE, options(graph, {"fc": "fp32"})).nodes) == 2
    both = {"fc": "fp32", "mean": "fp32"}
    assert len(chain_nodes(graph, DISCRETE, options(graph, both)).nodes) == 1


def some_layers(graph: Graph, numbers: set[int]) -> dict[str, str]:
    names = [node.origin.name for node in graph.nodes]
    return {"*": "fp16", **{names[n % len(names)]: "fp32" for n in numbers}}


@pytest.mark.long
@settings(max_examples=80, **COMMON)
@given(
    graphs(),
    st.sets(st.integers(0, 40), max_size=8),
    st.sampled_from((CPU, DISCRETE, MINIMUM)),
    st.sampled_from((16, 64, 256)),
)
def test_random_mixed_plans_are_sound(graph, numbers, device, alignment):
    limits = dataclasses.replace(device, storage_alignment=alignment, texel_alignment=16)
    check_mixed(lower(graph, limits, options(graph, some_layers(graph, numbers))))


@pytest.mark.device
@settings(max_examples=15, **COMMON)
@given(
    graphs(),
    st.sets(st.integers(0, 40), max_size=8),
    st.sampled_from(ACCESS_MODES),
    st.sampled_from(("cpu", "discrete")),
)
def test_random_mixed_results_are_the_simulated_ones(graph, numbers, mode, kind):
    """Errors of arithmetic move a result by a rounding to float16 at most, a few times over."""
    skip_without_half()
    limits = dataclasses.replace(shared_device().limits, preferred_access=mode, kind=kind)
    feeds = {v.name: random(*v.type.dims) for v in graph.inputs}
    mixed = dataclasses.replace(options(graph, some_layers(graph, numbers)), guard=GUARD_BYTES)
    results = run_graph(graph, limits, mixed, feeds)
    assert mixed.layers is not None
    layers = mixed.layers
    right = Simulation(graph, feeds, "fp16").outputs(
        lambda node: not layers.keeps_single(node.origin.name)
    )
    for name, want in right.items():
        assert np.abs(results[name] - want).max() <= 2e-2 * max(1.0, np.abs(want).max()), name
