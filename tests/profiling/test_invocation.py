"""Counts of what an invocation does, from SPIR-V alone: against counts that are known."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import single_op_graph
from tests.lowering.limits import DISCRETE
from tests.lowering.op_cases import FAMILIES
from tests.lowering.plan_texts import MATRICES, TARGETS

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.ops import elementwise as ew
from vknn.ops.convolution.conv import Conv
from vknn.ops.matmul import MatMul
from vknn.plan import Dispatch
from vknn.profiling.invocation import NotCounted, TargetSizes, counts, decode
from vknn.profiling.invocation.counts import Counts
from vknn.profiling.invocation.dependence import Dependence
from vknn.profiling.invocation.module import KernelModule
from vknn.profiling.invocation.program import FunctionCode
from vknn.runtime.spirv import glsl, modules
from vknn.runtime.spirv import words as spv
from vknn.runtime.spirv.shaderc import ShaderJob, compiler

pytestmark = pytest.mark.glsl
LANES = 32


def counted(dispatch: Dispatch) -> Counts:
    texels = tuple((n, b.format.texel_bytes) for n, b in enumerate(dispatch.bindings))
    spirv = modules.spirv(dispatch.kernel, dispatch.variant)
    constants = dict(dispatch.specialization)
    return counts(spirv, constants, dispatch.push, dispatch.groups, TargetSizes(LANES, texels))


def dispatches(
    op: object, arrays: list[np.ndarray], constants: tuple[int, ...], algorithm: str, **options: str
) -> list[Dispatch]:
    """Dispatches of a single op by a candidate."""
    graph = single_op_graph(op, arrays, constants)  # type: ignore[arg-type]
    limits = MATRICES if options else DISCRETE
    return lower(graph, limits, LoweringOptions(algorithm=algorithm, **options)).dispatches


def convolution(op: Conv, weight: np.ndarray) -> Dispatch:
    """The dispatch that computes 16 channels from 32 of 16x16, one pixel an invocation."""
    arrays = [ones(1, 32, 16, 16), weight, ones(16)]
    made = dispatches(op, arrays, (1, 2), "tile1x1")
    return next(d for d in made if d.kernel == "convolution/conv")


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def invocations(dispatch: Dispatch, found: Counts) -> int:
    return math.prod(dispatch.groups) * math.prod(found.local)


def test_every_module_is_read() -> None:
    """Of each kernel one variant; every one: test_every_variant_is_read."""
    root = glsl.source_root()
    for kernel in glsl.kernels(root):
        variant = glsl.variants(glsl.read_kernel(root, kernel), kernel)[-1]
        decode(modules.spirv(kernel, variant))


@pytest.mark.slow
def test_every_variant_is_read() -> None:
    root = glsl.source_root()
    read = 0
    for kernel in glsl.kernels(root):
        for variant in glsl.variants(glsl.read_kernel(root, kernel), kernel):
            decode(modules.spirv(kernel, variant))
            read += 1
    assert read > 1000


@pytest.mark.parametrize("kernel", [1, 3])
def test_multiply_adds_of_a_convolution(kernel: int) -> None:
    """Each invocation computes 4 channels of a pixel, and each of its products is counted."""
    weight = ones(16, 32, kernel, kernel)
    op = Conv((1, 1), (kernel // 2,) * 4, (1, 1))
    conv = convolution(op, weight)
    found = counted(conv)
    products = 4 * 32 * kernel * kernel
    assert found.hot is not None
    assert found.hot.rounds * found.hot.each.multiply_adds == products
    assert products <= found.whole.multiply_adds <= products + 16  # places of pixels are divided
    macs = 16 * 32 * 16 * 16 * kernel * kernel
    assert invocations(conv, found) * products == macs
    assert not found.whole.barriers and not found.whole.shared_bytes


@pytest.mark.parametrize("algorithm", ["tile1x1", "split2-tile1x4"])
def test_taps_of_a_small_image_are_all_counted(algorithm: str) -> None:
    """Lanes at edges leave taps out; one of those that are followed has pixels all round it."""
    weight = ones(512, 32, 3, 3)
    op = Conv((1, 1), (1,) * 4, (1, 1))
    made = dispatches(op, [ones(1, 32, 14, 14), weight, ones(512)], (1, 2), algorithm)
    found = counted(next(d for d in made if d.kernel == "convolution/conv"))
    parts, block = (1, 1) if algorithm == "tile1x1" else (2, 4)
    products = 4 * block * 32 // parts * 9
    assert products <= found.whole.multiply_adds < 1.1 * products


def test_loads_of_a_convolution() -> None:
    """A round loads a vector of the input and four of the weights."""
    conv = convolution(Conv((1, 1), (0,) * 4, (1, 1)), ones(16, 32, 1, 1))
    hot = counted(conv).hot
    assert hot is not None
    assert hot.each.loads == 5 * hot.each.multiply_adds / 16
    assert hot.each.load_bytes == 16 * hot.each.loads


@pytest.mark.parametrize("precision, width", [("fp32", 4), ("fp16", 2)])
def test_bytes_of_an_elementwise_operator(precision: str, width: int) -> None:
    array = ones(1, 8, 32, 32)
    (add,) = dispatches(ew.Add(), [array, array], (), "elementwise", precision=precision)
    found = counted(add)
    whole = invocations(add, found)
    assert whole * found.whole.load_bytes == 2 * array.size * width
    assert whole * found.whole.store_bytes == array.size * width
    assert found.whole.work == 0


def test_shared_memory_and_barriers_of_a_product() -> None:
    arrays = [ones(64, 64), ones(64, 64)]
    (product,) = dispatches(MatMul(), arrays, (), "shared32x32")
    found = counted(product)
    assert found.hot is not None and found.hot.each.barriers == 2
    assert found.whole.shared_loads and found.whole.shared_stores
    assert invocations(product, found) * found.hot.rounds * found.hot.each.work == 64**3


@pytest.mark.parametrize("kernel", ["conv", "shared"])
def test_dot_products_of_float16(kernel: str) -> None:
    """All multiply-adds of both forms are in pairs."""
    x, w = ones(1, 64, 16, 16), ones(64, 64, 1, 1)
    features = MATRICES.features | {"float_dot"}
    limits = replace(MATRICES, kind="discrete", features=features, name="with dots")
    algorithm = {"conv": "tile1x1-dot", "shared": "dot32x32"}[kernel]
    options = LoweringOptions(algorithm=algorithm, precision="fp16")
    graph = single_op_graph(Conv((1, 1), (0, 0, 0, 0), (1, 1)), [x, w], (1,))
    made = lower(graph, limits, options).dispatches
    (dispatch,) = (d for d in made if d.kernel == f"convolution/{kernel}")
    found = counted(dispatch)
    assert ("DOTS", "1") in dispatch.variant
    assert invocations(dispatch, found) * found.whole.packed == 64 * 64 * 256
    assert found.whole.multiply_adds <= found.whole.packed + 16  # places of pixels are divided


def test_products_of_cooperative_matrices() -> None:
    """An invocation's share of all multiply-adds."""
    arrays = [ones(64, 64), ones(64, 64)]
    graph = single_op_graph(MatMul(), arrays, (1,))
    plain = LoweringOptions(precision="fp16")
    names = [c.name for c in candidates(graph.nodes[0], MATRICES, plain)]
    name = next(n for n in names if n.startswith("cooperative"))
    (product,) = [
        d
        for d in lower(graph, MATRICES, replace(plain, algorithm=name)).dispatches
        if d.kernel.startswith("matmul/")
    ]
    found = counted(product)
    assert found.whole.matrix * invocations(product, found) == 64**3


@pytest.mark.long
@pytest.mark.parametrize("target", ["minimum", "discrete, everything, fp16"])
@pytest.mark.parametrize("family", ["products", "pooling", "recurrent", "reduction"])
def test_every_candidate_is_counted(family: str, target: str) -> None:
    """Each kernel's variant once; that it stores something shows that it was followed."""
    limits, precision, arithmetic = TARGETS[target]
    plain = LoweringOptions(precision=precision, arithmetic=arithmetic)
    seen = set()
    for case in FAMILIES[family]():
        graph = case.graph()
        for candidate in candidates(graph.nodes[0], limits, plain):
            layout = candidate.outputs[0]
            options = replace(plain, algorithm=candidate.name, layout=layout)
            for dispatch in lower(graph, limits, options).dispatches:
                if (dispatch.kernel, dispatch.variant) not in seen:
                    seen.add((dispatch.kernel, dispatch.variant))
                    whole = counted(dispatch).whole
                    assert whole.stores or whole.matrix, (dispatch.kernel, dispatch.label)
    assert len(seen) > 3


MATRICES_BY_VECTORS = """#version 450
layout(local_size_x = 1) in;
layout(push_constant) uniform Push { float x; } p;
layout(binding = 0) writeonly buffer Out { float y[]; };
void main() {
    vec2 v = vec2(p.x, 3.0);
    mat2x2 m = mat2x2(1.0, 2.0, p.x + 3.0, 4.0);
    int rounds = int(%s);
    for (int i = 0; i < rounds; ++i) y[i] = p.x;
}
"""


@pytest.mark.parametrize(
    ("product", "rounds"), [("(v * m).x", 8), ("(m * v).x", 17), ("(m * p.x)[1].x", 10)]
)
def test_products_of_matrices(product: str, rounds: int) -> None:
    """2 x 1 + 3 x 2 (a column), 2 x 1 + 3 x 5 (a row), 5 x 2; four multiply-adds each."""
    job = ShaderJob(MATRICES_BY_VECTORS % product, "matrices.comp", {})
    (spirv,) = compiler().compile([job])
    found = counts(spirv, {}, struct.pack("<f", 2.0), (1, 1, 1), TargetSizes(LANES)).whole
    assert (found.stores, found.multiply_adds) == (rounds, 4)


READS = """#version 450
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x = 32) in;
layout(push_constant) uniform Push { int n; } p;
layout(binding = 0) buffer Data { int x[]; };
shared int held[32];
int of_data(int at) { return x[at]; }
void main() {
    int i = int(gl_LocalInvocationIndex);
    held[i] = x[i];
    barrier();
    for (int k = 0; k < %s; ++k) x[32 * k + i] = %s;
}
"""


@pytest.mark.parametrize(
    ("end", "value", "by_data"),
    [
        ("p.n", "7", False),
        ("p.n + i / 32", "x[k]", False),  # data are stored, but decide nothing
        ("5", "subgroupAdd(x[i])", False),
        ("int(unpackHalf2x16(packHalf2x16(vec2(9, p.n))).y)", "7", False),
        ("int(packHalf2x16(vec2(p.n, -0.0)) >> 8 & 7u)", "7", False),  # 5.0 is 0x4500
        ("p.n + int(isinf(unpackHalf2x16(packHalf2x16(vec2(1e6 * p.n, 0))).y))", "7", False),
        ("p.n + x[i]", "7", True),
        ("p.n + held[0]", "7", True),
        ("5 + of_data(i)", "7", True),
        ("5 + subgroupAdd(x[i])", "7", True),
        ("5 + atomicAdd(x[i], 1)", "7", True),
    ],
)
def test_rounds_that_data_decide(end: str, value: str, by_data: bool) -> None:
    """Buffers read as zeros, so there are five rounds each time; other data may make it more."""
    job = ShaderJob(READS % (end, value), "reads.comp", {})
    (spirv,) = compiler().compile([job])
    found = counts(spirv, {}, struct.pack("<i", 5), (1, 1, 1), TargetSizes(LANES))
    assert found.by_data is by_data
    assert found.hot is not None and found.hot.rounds == 5


@pytest.mark.parametrize(
    ("kernel", "by_data"),
    [
        ("detection/suppress", True),
        ("detection/merge", True),
        ("convolution/conv", False),
        ("matmul/tile", False),
        ("attention/stream", False),
    ],
)
def test_kernels_that_data_decide(kernel: str, by_data: bool) -> None:
    module = KernelModule.parse(modules.spirv(kernel, _first(kernel)), {})
    dependence = Dependence(module)
    functions = [
        FunctionCode(module, dependence, module.functions[f]) for f in dependence.reachable
    ]
    assert any(f.by_data for f in functions) is by_data


def test_too_many_rounds() -> None:
    conv = convolution(Conv((1, 1), (0,) * 4, (1, 1)), ones(16, 32, 3, 3))
    spirv = modules.spirv(conv.kernel, conv.variant)
    constants = dict(conv.specialization)
    with pytest.raises(NotCounted, match="more than 10 rounds"):
        counts(spirv, constants, conv.push, conv.groups, TargetSizes(LANES), max_rounds=10)


def test_unknown_opcode() -> None:
    """A module is refused, not counted as if the instruction did nothing."""
    spirv = modules.spirv("elementwise/cast", _first("elementwise/cast"))
    code = list(spv.unpacked(spirv))
    changed, at = [*code[: spv.HEADER_WORDS]], 0
    for opcode, operands in spv.instructions(code):
        unknown = opcode == 128 and at == 0  # an addition becomes OpSDot
        at += unknown
        changed += [spv.first_word(4500 if unknown else opcode, len(operands)), *operands]
    assert at
    with pytest.raises(NotCounted, match="opcode 4500 is not known"):
        counts(spv.packed(changed), {}, b"", (1, 1, 1), TargetSizes(LANES))


def test_what_is_no_module() -> None:
    with pytest.raises(NotCounted, match="not SPIR-V"):
        counts(b"\0" * 40, {}, b"", (1, 1, 1), TargetSizes(LANES))


def test_texels_of_unknown_size() -> None:
    kernel = "elementwise/unary"
    variants = glsl.variants(glsl.read_kernel(glsl.source_root(), kernel), kernel)
    variant = next(v for v in variants if dict(v).get("ACCESS") == "1")
    with pytest.raises(NotCounted, match="texels"):
        counts(modules.spirv(kernel, variant), {}, bytes(128), (1, 1, 1), TargetSizes(LANES))


def _first(kernel: str) -> glsl.Variant:
    return glsl.variants(glsl.read_kernel(glsl.source_root(), kernel), kernel)[0]
