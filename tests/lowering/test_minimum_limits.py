"""Every op lowers within the limits of devices that allow little, and of some that allow more.

No device is needed: plans are held against made-up limits.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tests.lowering import (
    rearrange_cases,
    reduction_cases,
    spatial_cases,
)
from tests.lowering.limits import (
    DEVICES,
    DISCRETE,
    MINIMUM,
    NARROW,
    SHARED_MEMORY,
    check_limits,
    offers,
    source,
)
from tests.lowering.op_cases import FAMILIES, Case, conv, transposed, with_epilogues

from vknn.graph import Graph, GraphBuilder, Op, TensorType, op_classes
from vknn.lowering import LoweringOptions, lower
from vknn.lowering.kernels import find_rule
from vknn.ops import elementwise as ew
from vknn.ops.attention import Attention
from vknn.ops.chain import Chain
from vknn.ops.custom import Custom
from vknn.ops.matmul import MatMul, QuantizedMatMul
from vknn.ops.movement.shape import Concat, Pad, Slice, Transpose
from vknn.ops.normalization import LRN, BatchNormalization, LayerNormalization
from vknn.ops.pooling.pool import AdaptiveAveragePool, GlobalAveragePool, MaxPool
from vknn.ops.quantized.linear import QuantizeLinear
from vknn.ops.reduction import Softmax
from vknn.ops.sampling.resize import Resize
from vknn.plan import DeviceLimits
from vknn.runtime.spirv import glsl

pytestmark = pytest.mark.long  # plans of every op


def lower_each(case: Case, limits: DeviceLimits) -> int:
    """Lowers a case by each of its candidates; returns how many there are."""
    graph = case.graph()
    found = offers(graph, limits)
    for candidate in found:
        options = LoweringOptions(algorithm=candidate.name, layout=candidate.outputs[0])
        check_limits(lower(graph, limits, options), limits)
    return len(found)


def thinned(names: Iterable[str], kept: str) -> list[Any]:
    """Parameters of which ``tools/test --quick`` takes one."""
    return [pytest.param(n, marks=() if n == kept else pytest.mark.long) for n in names]


@pytest.mark.parametrize("device", thinned(DEVICES, "minimum"))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_op_fits_the_device(family: str, device: str) -> None:
    for case in FAMILIES[family]():
        assert lower_each(case, DEVICES[device]), f"{case}: no candidate"


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
def test_every_op_with_an_epilogue_fits_the_device(device: str) -> None:
    for case in with_epilogues([case for family in FAMILIES.values() for case in family()]):
        assert lower_each(case, DEVICES[device]), f"{case}: no candidate"


@pytest.mark.long
@pytest.mark.parametrize("device", NARROW)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_fit_is_left_to_the_host(family: str, device: str) -> None:
    cases = list(FAMILIES[family]())
    for case in [*cases, *with_epilogues(cases)]:
        lower_each(case, NARROW[device])


#: Ops on tensors of half a gigabyte and more, of which only weights have data.
BIG = (1, 64, 2048, 1024)
PADS = (0, 0, 1, 1, 0, 0, 1, 1)
LARGE: list[tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = [
    (ew.Sigmoid(), (BIG,), ()),
    (ew.Add(), (BIG, BIG), ()),
    (ew.Mul(), (BIG, (64, 1, 1)), ()),
    (conv(2), (BIG,), ((16, 64, 3, 3), (16,))),
    (conv(2, group=64), (BIG,), ((64, 1, 3, 3), (64,))),
    (conv(2, group=32), (BIG,), ((32, 2, 3, 3), (32,))),
    (transposed(2), ((1, 64, 1025, 512),), ((64, 64, 3, 3), (64,))),
    (transposed(2, 64), ((1, 64, 1025, 512),), ((64, 1, 3, 3), (64,))),
    (MaxPool((3, 3), (1, 1), (1, 1, 1, 1)), (BIG,), ()),
    (GlobalAveragePool(), (BIG,), ()),
    (AdaptiveAveragePool((7, 7)), (BIG,), ()),
    (Softmax(1), (BIG,), ()),
    (Softmax(-1), ((1 << 24, 8),), ()),
    (LayerNormalization(-1), ((1 << 24, 8),), ((8,), (8,))),
    (BatchNormalization(), (BIG,), ((64,),) * 4),
    (LRN((1,), (2,), (2,)), (BIG,), ()),
    (MatMul(), ((1 << 22, 32), (32, 16)), ()),
    (MatMul(), ((1 << 22, 31), (31, 16)), ()),
    (MatMul(), ((1, 32), (32, 1 << 22)), ()),
    (Attention(4, 0.5), ((1, 4096, 256),) * 3, ()),
    (Attention(8, 0.5), ((1, 8192, 256),) * 3, ()),
    (QuantizedMatMul(), ((4096, 4096), (4096, 4096)), ()),
    (Transpose((0, 2, 3, 1)), (BIG,), ()),
    (Slice((1,), (63,), (1,)), (BIG,), ()),
    (Pad(PADS), ((1, 64, 2046, 1022),), ()),
    (Concat(1), ((1, 31, 2048, 1024), (1, 33, 2048, 1024)), ()),
    (Resize((2048, 1024)), ((1, 64, 512, 512),), ()),
    (QuantizeLinear(), (BIG, (64,)), ()),
    *reduction_cases.LARGE,
    *rearrange_cases.LARGE,
    *spatial_cases.LARGE,
]
ROOMY = dataclasses.replace(MINIMUM, max_storage_buffer_range=1 << 30)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(ROOMY, id="other"),
        pytest.param(dataclasses.replace(ROOMY, kind="cpu"), id="cpu", marks=pytest.mark.long),
        pytest.param(
            dataclasses.replace(ROOMY, kind="cpu", subgroup_size=8, max_group_invocations=1024),
            id="cpu, subgroups of 8",
            marks=pytest.mark.long,
        ),
        pytest.param(DISCRETE, id="discrete", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("number", range(len(LARGE)), ids=lambda i: f"{i} {LARGE[i][0].type_name}")
def test_large_tensors(number: int, limits: DeviceLimits) -> None:
    """More workgroups than an axis may have, more items than a lane may take."""
    graph = _large(number)
    found = offers(graph, limits)
    assert found
    for candidate in found:
        options = LoweringOptions(algorithm=candidate.name, layout=candidate.outputs[0])
        check_limits(lower(graph, limits, options), limits)


@pytest.mark.parametrize("number", range(len(LARGE)), ids=lambda i: f"{i} {LARGE[i][0].type_name}")
def test_tensors_larger_than_a_buffer_are_the_hosts(number: int) -> None:
    small = any(math.prod(s) < 1 << 25 for s in LARGE[number][1])
    assert small or not offers(_large(number), MINIMUM)


def _large(number: int) -> Graph:
    op, inputs, weights = LARGE[number]
    builder = GraphBuilder(op.type_name)
    values = [builder.input(f"x{i}", TensorType(shape)) for i, shape in enumerate(inputs)]
    values += [builder.constant(np.ones(shape, np.float32)) for shape in weights]
    return builder.finish({"y": builder.add(op, *values)})


def test_weights_larger_than_a_buffer_are_the_hosts() -> None:
    """As they lie, or only as they are packed."""
    limits = dataclasses.replace(MINIMUM, max_storage_buffer_range=100_000)
    assert not offers(Case(MatMul(), ((1, 160), (160, 160), None), (1,)).graph(), limits)
    assert offers(Case(MatMul(), ((1, 156), (156, 156), None), (1,)).graph(), limits)
    assert offers(Case(MatMul(), ((1, 5000), (5000, 1), None), (1,)).graph(), limits)
    weights = (160, 160, 1, 1)
    assert not offers(Case(conv(2, 1), ((1, 160, 4, 4), weights, None), (1,)).graph(), limits)
    found = offers(Case(conv(2, 1), ((1, 3, 1, 1), (7000, 3, 1, 1), None), (1,)).graph(), limits)
    assert [c.name for c in found] == ["general"]


def test_every_op_with_a_rule_is_covered() -> None:
    covered = {type(case.op) for family in FAMILIES.values() for case in family()}
    own = {op for op in op_classes() if op.__module__.startswith("vknn.ops.")}
    own -= {Custom}  # its kernels are the users': tests/formats/test_custom.py
    own -= {Chain}  # on GPUs alone: tests/ops/chain
    assert {op.__name__ for op in own if find_rule(op)} == {op.__name__ for op in covered}


def test_shared_memory_is_known_for_every_kernel_that_has_some() -> None:
    for kernel in glsl.kernels(glsl.source_root()):
        declares = re.search(r"^shared ", source(kernel), re.MULTILINE) is not None
        assert declares == (kernel in SHARED_MEMORY), kernel
