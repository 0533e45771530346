"""Plans of precision "fp16" and "bf16": sizes, formats, variants that exist, without a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from tests.lowering.declarations import check_declarations
from tests.lowering.limits import check_limits
from tests.lowering.op_cases import FAMILIES, with_epilogues
from tests.lowering.test_plans import CPU, DEVICES, NETWORKS

from vknn.graph import GraphBuilder, TensorType
from vknn.lowering import Layout, LoweringOptions, candidates, check_plan, format_plan, lower
from vknn.lowering.kit.layouts import narrowed, pack, storage_bytes, vector_count
from vknn.ops.casting import BitCast
from vknn.ops.elementwise import Relu
from vknn.ops.movement.shape import Slice
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.plan import CooperativeMatrix, Plan, Role, TexelFormat, View
from vknn.runtime.spirv import glsl
from vknn.runtime.spirv.expanded import expanded_kernel

HALF = LoweringOptions(precision="fp16")
HALVES = ("fp16", "bf16")


def half_plan(network: str, device: str, precision: str, access: str = "storage") -> Plan:
    limits = dataclasses.replace(DEVICES[device], preferred_access=access)
    return lower(NETWORKS[network](), limits, LoweringOptions(precision=precision))


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_float_is_half_as_wide(network: str, device: str, precision: str) -> None:
    single = lower(NETWORKS[network](), DEVICES[device])
    half = half_plan(network, device, precision)
    check_plan(half)
    # At the edges of a GPU's plan a repack may convert: it says so by its variant.
    wide = [p for p in (*half.inputs.values(), *half.outputs.values()) if p.width == 4]
    assert len(wide) == sum(("SINGLE", "1") in d.variant for d in half.dispatches)
    assert not wide or device != "cpu"
    assert [p.width for p in single.outputs.values()] == [4]
    held = {"fp16": np.float16, "bf16": np.uint16}[precision]
    assert all(a.dtype == held for a in half.constants.values())
    for port in (*half.inputs.values(), *half.outputs.values()):
        assert port.bfloat16 == (precision == "bf16" and port.width == 2)
    edges = sum(half.buffers[port.buffer].nbytes // 2 for port in wide)
    assert sum(b.nbytes for b in half.buffers) - edges < 0.6 * sum(b.nbytes for b in single.buffers)
    assert half.arenas[Role.ACTIVATION] <= single.arenas[Role.ACTIVATION]
    for dispatch in half.dispatches:
        assert ("HALF", "1") in dispatch.variant
        assert (("BF16", "1") in dispatch.variant) == (precision == "bf16")
        listed = expanded_kernel(glsl.source_root(), dispatch.kernel).variants
        glsl.check_variant(listed, dispatch.kernel, dispatch.variant)


def test_fp32_is_the_default() -> None:
    (device, limits), *_ = DEVICES.items()
    for network, make in NETWORKS.items():
        plain = format_plan(lower(make(), limits))
        assert plain == format_plan(lower(make(), limits, LoweringOptions(precision="fp32")))
        assert "HALF" not in plain, (network, device)


@pytest.mark.parametrize(
    ("precision", "vector", "scalar"),
    [
        ("fp16", TexelFormat.RGBA16_SFLOAT, TexelFormat.R16_SFLOAT),
        ("bf16", TexelFormat.RGBA16_UINT, TexelFormat.R16_UINT),
    ],
)
def test_texel_formats(precision: str, vector: TexelFormat, scalar: TexelFormat) -> None:
    plan = half_plan("classifier", "cpu", precision, "image")
    bindings = [b for d in plan.dispatches for b in d.bindings if b.view is not View.STORAGE]
    assert {b.format for b in bindings} <= {vector, scalar}
    # Devices need not have storage texel buffers of 16-bit scalars.
    scalars = [b for b in bindings if b.format is scalar]
    assert all(b.view is View.TEXEL for b in scalars)


def test_sizes() -> None:
    type_ = TensorType((1, 5, 3, 1))
    assert storage_bytes(type_, Layout.C4, half=True) == 48
    assert storage_bytes(type_, Layout.LINEAR, half=True) == 32
    assert vector_count(type_, Layout.C4) == 6
    assert vector_count(type_, Layout.LINEAR) == 4
    integers = TensorType((3,), TensorType.of(np.zeros(1, np.int8)).dtype)
    assert storage_bytes(integers, Layout.LINEAR, half=True) == 16
    packed = pack(np.array([[1.0, 1e9]], np.float32), Layout.C4)
    halves = narrowed(packed, "fp16")
    np.testing.assert_array_equal(halves.ravel(), np.float16([1, np.inf, 0, 0]))
    bits = narrowed(packed, "bf16")
    np.testing.assert_array_equal(bits.ravel(), np.uint16([0x3F80, 0x4E6E, 0, 0]))
    assert narrowed(packed, "fp32") is packed


def everything(precision: str) -> Iterator[tuple[str, str]]:
    """Kernels and variants of every candidate of convolutions and products, with all features."""
    for case in [*FAMILIES["convolution"](), *FAMILIES["products"]()]:
        graph = case.graph()
        for candidate in candidates(graph.nodes[0], ABLE, LoweringOptions(precision=precision)):
            options = LoweringOptions(
                algorithm=candidate.name, layout=candidate.outputs[0], precision=precision
            )
            for dispatch in lower(graph, ABLE, options).dispatches:
                yield from ((dispatch.kernel, name) for name, _ in dispatch.variant)


@pytest.mark.long
def test_bfloat16_is_never_multiplied_as_float16() -> None:
    of_float16 = {"DOTS", "COOPERATIVE", "HALF_SUMS"}
    assert of_float16 & {name for _, name in everything("fp16")}
    assert not of_float16 & {name for _, name in everything("bf16")}


def test_views_begin_at_whole_elements() -> None:
    g = GraphBuilder("views")
    x = g.input("x", TensorType((4, 512)))
    part = g.add(Slice(starts=(2,), ends=(4,), axes=(0,)), g.add(Relu(), x))
    plan = lower(g.finish({"y": g.add(Relu(), part)}), DEVICES["cpu"], HALF)
    check_plan(plan)
    (view,) = [b for b in plan.buffers if "//" in b.name]
    root = next(b for b in plan.buffers if b.name == view.name.split("//")[0])
    assert view.offset - root.offset == 2 * 512 * 2


ABLE = dataclasses.replace(
    DEVICES["discrete"],
    features=DEVICES["discrete"].features | {"fp16_arithmetic", "cooperative_matrix", "float_dot"},
    cooperative=(CooperativeMatrix(16, 16, 16),),
)
SHUFFLING = dataclasses.replace(
    CPU,
    subgroup_size=8,
    max_group_invocations=1024,
    features=CPU.features | {"subgroup_shuffle"},
)
LIMITS = {**DEVICES, "shuffling": SHUFFLING}


@pytest.mark.glsl
@pytest.mark.parametrize(
    ("device", "access"),
    [("shuffling", "image"), ("shuffling", "texel"), ("cpu", "storage"), ("discrete", "storage")],
)
@pytest.mark.parametrize("precision", ["fp32", *HALVES])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_declares_what_it_is_given(
    family: str, precision: str, device: str, access: str
) -> None:
    """Every candidate of every op: a buffer's elements are those that the shader reads there."""
    limits = dataclasses.replace(LIMITS[device], preferred_access=access)
    cases = list(FAMILIES[family]())
    for case in [*cases, *with_epilogues(cases)]:
        graph = case.graph()
        found = candidates(graph.nodes[0], limits, LoweringOptions(precision=precision))
        scales = isinstance(case.op, QuantizeLinear | DequantizeLinear) and not case.constants
        bits = isinstance(case.op, BitCast)  # of floats that lie in memory in another precision
        assert found or (precision != "fp32" and (scales or bits)), f"{case}: no candidate"
        for candidate in found:
            options = LoweringOptions(
                algorithm=candidate.name, layout=candidate.outputs[0], precision=precision
            )
            plan = lower(graph, limits, options)
            check_limits(plan, limits)
            for dispatch in plan.dispatches:
                check_declarations(dispatch)
