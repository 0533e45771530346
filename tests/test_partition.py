"""Partitions: what runs where, and together. Needs no device."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from vknn.graph import DType, Graph, GraphBuilder, Op, TensorType
from vknn.lowering import LoweringOptions
from vknn.ops.elementwise import Add, Cast, Relu
from vknn.partition import Partition, partition
from vknn.plan import DeviceLimits


@dataclass(frozen=True)
class OnHost(Op):
    """An op without a kernel."""

    def infer(self, *inputs):
        return (inputs[0],)

    def reference(self, *inputs):
        return (inputs[0],)


@dataclass(frozen=True)
class SomeRows(Op):
    """Rows, how many of them data decide."""

    def infer(self, *inputs):
        return (TensorType((None, *inputs[0].shape[1:]), inputs[0].dtype),)

    def bound(self, *inputs):
        return (inputs[0],)

    def reference(self, *inputs):
        return (inputs[0][:1],)


def two_sides() -> Graph:
    """relu, a step on the host, relu; and the sum of both relus."""
    g = GraphBuilder("two sides")
    first = g.add(Relu(), g.input("x", TensorType((2, 3))), name="first")
    second = g.add(Relu(), g.add(OnHost(), first, name="host"), name="second")
    return g.finish({"y": g.add(Add(), first, second, name="sum")})


def cut(graph: Graph, device: bool = True, keep_values: bool = False) -> Partition:
    limits = DeviceLimits() if device else None
    return partition(graph, limits, LoweringOptions(), keep_values=keep_values)


def names(parts: Partition) -> list[list[str]]:
    return [[node.name for node in segment.nodes] for segment in parts.segments]


def test_sides_take_turns() -> None:
    parts = cut(two_sides())
    assert names(parts) == [["first"], ["host"], ["second", "sum"]]
    assert [parts.placement[s.nodes[0]] for s in parts.segments] == ["vulkan", "host", "vulkan"]
    assert parts.deferred == []


def test_segments_hand_on_what_later_ones_read() -> None:
    parts = cut(two_sides())
    outputs = [[v.name for v in s.outputs.values()] for s in parts.segments]
    inputs = [{v.name for v in s.inputs} for s in parts.segments]
    assert outputs == [["first"], ["host"], ["sum"]]
    assert inputs == [{"x"}, {"first"}, {"host", "first"}]


def test_values_are_kept_where_asked_for() -> None:
    last = cut(two_sides(), keep_values=True).segments[-1]
    assert [v.name for v in last.outputs.values()] == ["second", "sum"]


def test_all_is_one_segment_without_a_device() -> None:
    parts = cut(two_sides(), device=False)
    assert names(parts) == [["first", "host", "second", "sum"]]
    assert set(parts.placement.values()) == {"host"}
    assert not parts.candidates


def test_candidates_are_those_of_the_nodes_on_the_device() -> None:
    parts = cut(two_sides())
    assert {n.name for n, found in parts.candidates.items() if found} == {"first", "second", "sum"}


def test_nodes_behind_open_shapes_are_deferred() -> None:
    g = GraphBuilder()
    rows = g.add(SomeRows(), g.add(Relu(), g.input("x", TensorType((4, 2)))), name="rows")
    parts = cut(g.finish({"y": g.add(OnHost(), g.add(Relu(), rows, name="late"), name="later")}))
    assert [n.name for n in parts.deferred] == ["late", "later"]
    assert names(parts)[-1] == ["rows"]
    assert [v.name for v in parts.segments[-1].outputs.values()] == ["rows"]


def test_names_of_values_become_unique() -> None:
    graph = two_sides()
    for value in graph.values():
        value.name = "same"
    found = [v.name for v in cut(graph).graph.values()]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("own", "wide", "fits"),
    [
        (DType.INT32, DType.INT64, True),
        (DType.UINT8, DType.UINT64, True),
        (DType.BOOL, DType.UINT32, True),
        (DType.FLOAT32, DType.FLOAT64, True),
        (DType.INT32, DType.UINT32, False),
        (DType.INT32, DType.FLOAT64, False),
        (DType.FLOAT32, DType.INT64, False),
        (DType.FLOAT32, DType.BFLOAT16, False),
        (DType.INT8, DType.INT4, False),
        (DType.BOOL, DType.COMPLEX64, False),
    ],
)
def test_casts_that_ports_do(own: DType, wide: DType, fits: bool) -> None:
    g = GraphBuilder("wider")
    summed = g.add(Cast(own), g.input("x", TensorType((2, 3))), name="own")
    parts = cut(g.finish({"y": g.add(Cast(wide), summed, name="wide")}))
    assert names(parts) == ([["own", "wide"]] if fits else [["own"], ["wide"]])


def test_casts_of_what_the_host_has_are_the_host_s() -> None:
    g = GraphBuilder("host")
    x = g.input("x", TensorType((2, 3), DType.INT32))
    first = g.add(Cast(DType.INT64), x, name="first")
    second = g.add(Cast(DType.INT64), g.add(OnHost(), x, name="host"), name="second")
    parts = cut(g.finish({"a": first, "b": second}))
    assert set(parts.placement.values()) == {"host"}
