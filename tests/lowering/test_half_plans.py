"""Plans of precision "fp16": sizes, formats, variants that exist, without a device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.lowering.declarations import check_declarations
from tests.lowering.limits import check_limits
from tests.lowering.op_cases import FAMILIES, with_epilogues
from tests.lowering.test_plans import CPU, DEVICES, NETWORKS

from vknn.graph import GraphBuilder, TensorType
from vknn.lowering import Layout, LoweringOptions, candidates, check_plan, format_plan, lower
from vknn.lowering.kit.layouts import pack, storage_bytes, vector_count
from vknn.ops.elementwise import Relu
from vknn.ops.movement.shape import Slice
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.plan import Plan, Role, TexelFormat, View
from vknn.runtime.spirv import glsl

HALF = LoweringOptions(precision="fp16")


def half_plan(network: str, device: str, access: str = "storage") -> Plan:
    limits = dataclasses.replace(DEVICES[device], preferred_access=access)
    return lower(NETWORKS[network](), limits, HALF)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_float_is_half_as_wide(network: str, device: str) -> None:
    single, half = lower(NETWORKS[network](), DEVICES[device]), half_plan(network, device)
    check_plan(half)
    # At the edges of a GPU's plan a repack may convert: it says so by its variant.
    wide = [p for p in (*half.inputs.values(), *half.outputs.values()) if p.width == 4]
    assert len(wide) == sum(("SINGLE", "1") in d.variant for d in half.dispatches)
    assert not wide or device != "cpu"
    assert [p.width for p in single.outputs.values()] == [4]
    assert all(a.dtype == np.float16 for a in half.constants.values())
    edges = sum(half.buffers[port.buffer].nbytes // 2 for port in wide)
    assert sum(b.nbytes for b in half.buffers) - edges < 0.6 * sum(b.nbytes for b in single.buffers)
    assert half.arenas[Role.ACTIVATION] <= single.arenas[Role.ACTIVATION]
    for dispatch in half.dispatches:
        assert ("HALF", "1") in dispatch.variant
        text = glsl.read_kernel(glsl.source_root(), dispatch.kernel)
        glsl.check_variant(text, dispatch.kernel, dispatch.variant)


def test_fp32_is_the_default() -> None:
    (device, limits), *_ = DEVICES.items()
    for network, make in NETWORKS.items():
        plain = format_plan(lower(make(), limits))
        assert plain == format_plan(lower(make(), limits, LoweringOptions(precision="fp32")))
        assert "HALF" not in plain, (network, device)


def test_texel_formats() -> None:
    plan = half_plan("classifier", "cpu", "image")
    bindings = [b for d in plan.dispatches for b in d.bindings if b.view is not View.STORAGE]
    assert {b.format for b in bindings} <= {TexelFormat.RGBA16_SFLOAT, TexelFormat.R16_SFLOAT}
    # Devices need not have storage texel buffers of 16-bit scalars.
    scalars = [b for b in bindings if b.format is TexelFormat.R16_SFLOAT]
    assert all(b.view is View.TEXEL for b in scalars)


def test_sizes() -> None:
    type_ = TensorType((1, 5, 3, 1))
    assert storage_bytes(type_, Layout.C4, half=True) == 48
    assert storage_bytes(type_, Layout.LINEAR, half=True) == 32
    assert vector_count(type_, Layout.C4) == 6
    assert vector_count(type_, Layout.LINEAR) == 4
    integers = TensorType((3,), TensorType.of(np.zeros(1, np.int8)).dtype)
    assert storage_bytes(integers, Layout.LINEAR, half=True) == 16
    packed = pack(np.array([[1.0, 1e9]], np.float32), Layout.C4, half=True)
    np.testing.assert_array_equal(packed.ravel(), np.float16([1, np.inf, 0, 0]))


def test_views_begin_at_whole_elements() -> None:
    g = GraphBuilder("views")
    x = g.input("x", TensorType((4, 512)))
    part = g.add(Slice(starts=(2,), ends=(4,), axes=(0,)), g.add(Relu(), x))
    plan = lower(g.finish({"y": g.add(Relu(), part)}), DEVICES["cpu"], HALF)
    check_plan(plan)
    (view,) = [b for b in plan.buffers if "//" in b.name]
    root = next(b for b in plan.buffers if b.name == view.name.split("//")[0])
    assert view.offset - root.offset == 2 * 512 * 2


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
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
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
        assert found or (precision == "fp16" and scales), f"{case}: no candidate"
        for candidate in found:
            options = LoweringOptions(
                algorithm=candidate.name, layout=candidate.outputs[0], precision=precision
            )
            plan = lower(graph, limits, options)
            check_limits(plan, limits)
            for dispatch in plan.dispatches:
                check_declarations(dispatch)
