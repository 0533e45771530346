"""Needs of plans: all that they ask of a device, never more than their target has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.bundle.sections import OPEN_SHAPES
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.bundle.module_facts import MatrixProduct, module_facts
from vknn.bundle.module_rules import facts_of
from vknn.bundle.modules import swept_keys
from vknn.bundle.needs import Needs, capabilities, needs
from vknn.bundle.schema import Feature
from vknn.bundle.segments import planned
from vknn.bundle.targets import TARGETS
from vknn.errors import ShaderError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.lowering import LoweringOptions
from vknn.plan import CooperativeMatrix, DeviceLimits
from vknn.runtime.spirv.modules import compile_glsl
from vknn.runtime.spirv.sweep import swept
from vknn.session import engine_of
from vknn.tool_inputs import complete_feeds

pytestmark = pytest.mark.glsl
NETWORKS = Path(__file__).resolve().parents[2].parent / "shared" / "benchmark" / "ncnn"
#: Features of the limits -> bits that plans may then ask for.
ALLOWED = {
    "fp16_storage": Feature.STORAGE_16BIT,
    "fp16_arithmetic": Feature.FLOAT16,
    "int8_arithmetic": Feature.INT8,
    "int64": Feature.INT64,
    "integer_dot": Feature.INTEGER_DOT,
    "float_dot": Feature.FLOAT_DOT,
    "subgroup_shuffle": Feature.SUBGROUP_SHUFFLE,
    "subgroup_arithmetic": Feature.SUBGROUP_ARITHMETIC,
    "cooperative_matrix": Feature.COOPERATIVE_MATRIX
    | Feature.FULL_SUBGROUPS
    | Feature.VULKAN_MEMORY_MODEL
    | Feature.MEMORY_MODEL_DEVICE_SCOPE
    | Feature.INT8,
}


def check_within(asked: Needs, limits: DeviceLimits) -> None:
    """Assertion that a device of these limits can do what is asked."""
    allowed = Feature.SUBGROUP_BASIC  # Vulkan 1.1 gives it to all
    for name in limits.features:
        allowed |= ALLOWED.get(name, Feature(0))
    assert asked.features & ~allowed == 0
    assert asked.storage_range <= limits.max_storage_buffer_range
    assert asked.texel_elements <= limits.max_texel_buffer_elements
    assert all(a <= b for a, b in zip(asked.group_size, limits.max_group_size, strict=True))
    assert asked.group_invocations <= limits.max_group_invocations
    assert all(a <= b for a, b in zip(asked.group_count, limits.max_group_count, strict=True))
    assert asked.shared_memory <= limits.shared_memory
    assert asked.push_bytes <= limits.max_push_constants
    assert asked.storage_buffers <= limits.max_storage_buffers
    assert asked.storage_alignment % limits.storage_alignment == 0
    assert asked.texel_alignment % limits.texel_alignment == 0
    assert asked.subgroup_size in (0, limits.subgroup_size)
    assert asked.loop_rounds <= limits.max_loop_rounds
    assert asked.vulkan == 1 << 22 | 1 << 12


def asked_by(
    path: Path,
    weights: Path | None,
    limits: DeviceLimits,
    precision: str = "fp32",
    shape: tuple[int, ...] = SHAPE,
) -> Needs:
    with vknn.Session(path, weights, device="cpu") as session:
        shapes = OPEN_SHAPES.get(path.stem, {"data": shape} if path.stem == "small" else {})
        graph = engine_of(session).graph(complete_feeds(session, shapes=shapes))
        _, plan = planned(graph, limits, LoweringOptions(precision=precision))
    return needs(plan, facts_of(plan.dispatches, swept_keys(plan.dispatches)), limits)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_small_network(target: str, precision: str, small: Path) -> None:
    limits = TARGETS[target]
    if precision == "fp16" and "fp16_storage" not in limits.features:
        pytest.skip("the target has no 16-bit storage")
    asked = asked_by(small, None, limits, precision)
    check_within(asked, limits)
    assert asked.shared_memory < limits.shared_memory
    assert asked.storage_range < limits.max_storage_buffer_range // 1000
    assert asked.group_count < limits.max_group_count
    assert bool(asked.features & Feature.STORAGE_16BIT) is (precision == "fp16")


@pytest.mark.slow
@pytest.mark.skipif(not NETWORKS.is_dir(), reason="needs the networks of the benchmarks")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [p.stem for p in sorted(NETWORKS.glob("*.param"))])
def test_networks_of_the_benchmarks(name: str, target: str, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    write_random_weights(NETWORKS / f"{name}.param", weights)
    limits = TARGETS[target]
    for precision in ("fp32", "fp16"):
        if precision == "fp32" or "fp16_storage" in limits.features:
            asked = asked_by(NETWORKS / f"{name}.param", weights, limits, precision)
            check_within(asked, limits)


def test_lanes_that_exchange_numbers_need_their_subgroups_size(small: Path) -> None:
    with_shuffle = asked_by(small, None, TARGETS["llvmpipe"])
    assert with_shuffle.features & Feature.SUBGROUP_SHUFFLE
    assert with_shuffle.subgroup_size == 8
    features = TARGETS["llvmpipe"].features - {"subgroup_shuffle"}
    without = asked_by(small, None, replace(TARGETS["llvmpipe"], features=features), "fp32")
    assert not without.features & Feature.SUBGROUP_SHUFFLE
    assert without.subgroup_size == 0


def test_cooperative_matrices(tmp_path: Path) -> None:
    """The product that the plan takes, of those that the device has."""
    (tmp_path / "net.param").write_text(
        "7767517\n3 3\nInput data 0 1 data 0=64 1=64 2=64\n"
        "Convolution conv 1 1 data conv 0=64 1=3 4=1 5=1 6=36864\nNoop out 1 1 conv out\n"
    )
    write_random_weights(tmp_path / "net.param", tmp_path / "net.bin")
    product = CooperativeMatrix(16, 16, 16)
    limits = replace(
        TARGETS["desktop"], subgroup_size=32, shared_memory=65536,
        features=TARGETS["desktop"].features | {"cooperative_matrix", "fp16_arithmetic"},
        cooperative=(product, CooperativeMatrix(16, 8, 8, "int8", "int32")),
    )  # fmt: skip
    with vknn.Session(tmp_path / "net.param", device="cpu") as session:
        graph = engine_of(session).graph(complete_feeds(session))
        options = LoweringOptions(precision="fp16", algorithm="cooperative64x64")
        _, plan = planned(graph, limits, options)
    assert any("cooperative" in d.label for d in plan.dispatches)
    asked = needs(plan, facts_of(plan.dispatches, swept_keys(plan.dispatches)), limits)
    assert asked.matrices == (MatrixProduct(16, 16, 16, 0, 1),)
    assert asked.features & Feature.COOPERATIVE_MATRIX and asked.features & Feature.FULL_SUBGROUPS
    assert asked.subgroup_size == 32
    check_within(asked, limits)


SOURCE = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int LANES = 4;
layout(constant_id = 2) const bool WIDE = false;
struct Pair { float a; vec3 b; };
shared vec4 sums[LANES / 2 + 1];
shared float odd[3];
shared Pair pairs[WIDE ? LANES * 2 : 1];
layout(set = 0, binding = 0, std430) buffer B { float b[]; };
void main() {
    sums[gl_LocalInvocationIndex % LANES] = vec4(b[0]);
    odd[1] = b[1];
    pairs[0].a = b[2];
    barrier();
    b[0] = sums[1].x + odd[2] + pairs[0].b.z;
}
"""


@pytest.mark.parametrize(
    ("constants", "expected"),
    [
        ({}, 3 * 16 + 12 + 4 + 32),
        ({1: 7}, 4 * 16 + 12 + 4 + 32),
        ({1: 8, 2: 1}, 5 * 16 + 12 + 4 + 16 * 32),
        ({1: 0xFFFFFFFF}, 1 * 16 + 12 + 4 + 32),  # -1: its half is 0
    ],
)
def test_shared_memory_follows_the_constants(constants: dict[int, int], expected: int) -> None:
    facts = module_facts(compile_glsl(SOURCE), constants)
    assert facts.shared_memory == expected
    assert facts.version == (1, 3)
    assert facts.capabilities == {1}


def test_shared_memory_that_nothing_uses_is_none() -> None:
    module = compile_glsl(SOURCE[: SOURCE.index("void main")] + "void main() { b[0] = 1; }")
    assert module_facts(module, {}).shared_memory == 3 * 16 + 12 + 4 + 32
    assert module_facts(swept(module), {}).shared_memory == 0


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("int a; float b; ivec3 c;", 28),
        ("int a, b[3];", 16),
        ("layout(offset = 8) vec2 a; uint b;", 20),
        ("mat2 a;", None),
        ("int a; Pair b;", None),
        ("layout(row_major) mat3 a; int b;", None),
    ],
)
def test_push_constants(block: str, expected: int | None) -> None:
    text = (
        "#version 450\nstruct Pair { float a; vec2 b; };\n"
        f"layout(push_constant) uniform P {{ {block} }} p;\n"
        "layout(set = 0, binding = 0, std430) buffer B { float b[]; };\n"
        "void main() { b[0] = b[1]; }\n"
    )
    assert module_facts(compile_glsl(text), {}).push_bytes == expected
    assert module_facts(compile_glsl(SOURCE), {}).push_bytes == 0


def test_a_capability_that_nobody_knows() -> None:
    assert capabilities([1, 4433]) is Feature.STORAGE_16BIT
    with pytest.raises(ShaderError, match="capability 5013"):
        capabilities([1, 5013])


def test_alignment_is_what_the_offsets_have(small: Path) -> None:
    close = asked_by(small, None, TARGETS["apple"], shape=(3, 5, 7))
    wide = asked_by(small, None, TARGETS["generic"], shape=(3, 5, 7))
    assert 16 <= close.storage_alignment < wide.storage_alignment == 256
    assert np.log2(close.storage_alignment) % 1 == 0
