"""The searches themselves, without a device: delta debugging and bisection of switches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from vknn.graph import GraphBuilder, TensorType
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Relu
from vknn.reduction.cases import GraphCase
from vknn.reduction.search import least
from vknn.reduction.sizes import _Axis, _shorter, _together
from vknn.reduction.switches import PartSwitch, decisive, switches
from vknn.reduction.verdict import Verdict, names_of


@pytest.mark.parametrize("needed", [{3}, {0, 99}, {17, 18, 60}, set(range(5))])
def test_delta_debugging_leaves_what_is_needed(needed: set[int]) -> None:
    asked: list[int] = []

    def fails(items: list[int]) -> bool:
        asked.append(len(items))
        return needed <= set(items)

    assert set(least(range(100), fails)) == needed
    assert len(asked) < 250
    if len(needed) == 1:
        assert len(asked) <= 14


SWITCHES = [PartSwitch(f"s{i}", "feature", "") for i in range(60)]


def names(found: Sequence[PartSwitch]) -> set[str]:
    return {s.name for s in found}


@pytest.mark.parametrize("needed", [{"s0"}, {"s59"}, {"s31"}, {"s3", "s40"}, {"s0", "s1", "s59"}])
def test_the_switches_that_are_needed_are_found(needed: set[str]) -> None:
    runs: list[int] = []

    def works(off: Sequence[PartSwitch]) -> bool:
        runs.append(len(off))
        return needed <= names(off)

    assert names(decisive(SWITCHES, works)) == needed
    assert len(runs) <= 1 + 7 * len(needed) + (len(needed) > 1) * len(needed)


def test_nothing_is_found_where_nothing_helps() -> None:
    assert decisive(SWITCHES, lambda off: False) == []


def test_the_narrowest_of_several_is_found() -> None:
    found = decisive(SWITCHES, lambda off: bool(names(off) & {"s7", "s50"}))
    assert names(found) == {"s7"}


def test_kernels_and_choices_stand_before_parts() -> None:
    failure = Verdict(
        "wrong", "", kernels=("repack", "Conv tile2x4"), choices={"Conv(): a | c4 -> c4": "tile4x4"}
    )
    found = switches(failure, frozenset(("fusion",)))
    assert [s.kind for s in found[:3]] == ["tuned choice", "kernel", "pass"]
    assert found[1].name == "kernel:Conv/tile2x4"
    assert "fusion" not in names(found) and {"texel", "batch-norm"} <= names(found)


def test_failures_are_alike_by_kind_and_layer() -> None:
    wrong = Verdict("wrong", "", "alone", "a+b", "Conv+Relu")
    assert names_of(wrong) == {"a", "b", "a+b"}
    assert wrong.is_like(Verdict("wrong", "", "alone", "b", "Relu"))
    assert not wrong.is_like(Verdict("wrong", "", "alone", "c", "Conv"))
    assert not wrong.is_like(Verdict("wrong", "", "together"))
    assert not wrong.is_like(Verdict("agrees", ""))
    assert not Verdict("died", "", "SIGSEGV").is_like(Verdict("died", "", "SIGABRT"))


def convolution(group: int) -> GraphCase:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((1, 8, 6, 6)))
    w = builder.constant(np.ones((8, 8 // group, 3, 3), np.float32), "w")
    b = builder.constant(np.ones(8, np.float32), "b")
    op = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=group)
    y = builder.add(op, x, w, b)
    z = builder.add(Relu(), y)
    return GraphCase(builder.finish({"z": z}), {"x": np.ones((1, 8, 6, 6), np.float32)})


@pytest.mark.parametrize("group", [1, 8])
def test_channels_are_cut_with_all_that_depends_on_them(group: int) -> None:
    case = convolution(group)
    place = _Axis(case.graph.inputs[0], 1, 8)
    found = (_shorter(case, p, 8, 4, first=True) for p in _together(case, place))
    shorter = next(c for c in found if c is not None)
    assert shorter.graph.inputs[0].type.dims == (1, 4, 6, 6)
    assert shorter.elements < case.elements
    conv, weight = shorter.graph.nodes[0].op, shorter.graph.nodes[0].inputs[1]
    assert isinstance(conv, Conv) and weight is not None
    assert (conv.group, weight.type.dims[1]) == ((1, 4) if group == 1 else (4, 1))
    assert shorter.known[shorter.graph.outputs["z"]].shape == (1, 8, 6, 6)


def test_a_part_has_what_the_others_made_as_inputs() -> None:
    case = convolution(1)
    relu = case.graph.nodes[1]
    part = case.part([relu])
    assert [n.op for n in part.graph.nodes] == [relu.op]
    (value,) = part.graph.inputs
    np.testing.assert_array_equal(part.feeds[value.name], case.known[relu.inputs[0]])
    assert dataclasses.asdict(Verdict("agrees", ""))["kind"] == "agrees"
