"""Shaders of custom layers: those that a runner would call damage are told at the export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.ncnn.nets import net

import vknn
from vknn.bundle import Bundle, schema
from vknn.errors import ExportError

pytestmark = pytest.mark.glsl
HEAD = """#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_clustered : enable
#include "common/tensor.glsl"
#include "common/grid.glsl"
struct Pair { float a; float b; };
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    vknn.unregister_layer("ncnn", "Mine")


def shader(inputs: int = 1, block: str = "int count; float a;", value: str = "p.a") -> str:
    """A sum of the inputs and of a number that a block of push constants has."""
    reads = "".join(f"INPUT1F({n}, x{n});\n" for n in range(inputs))
    total = " + ".join(f"LOAD1(x{n}, i)" for n in range(inputs))
    return (
        f"{HEAD}{reads}OUTPUT1F({inputs}, y);\n"
        f"layout(push_constant) uniform P {{ {block} }} p;\n"
        "void main() {\n    int i = linear_lane();\n    if (i >= p.count) return;\n"
        f"    STORE1(y, i, {total} + {value});\n}}\n"
    )


def exported(
    folder: Path,
    text: str,
    inputs: int = 1,
    push: int = 2,
    outputs: str | None = None,
    **more: Any,
) -> Bundle:
    """A bundle of a network with a layer of this shader, named mine."""
    names = " ".join(f"x{n}" for n in range(inputs))
    layers = ["Input data 0 1 data", "ReLU relu 1 1 data a", f"Split parts 1 {inputs} a {names}"]
    path = folder / "net.param"
    path.write_text(net(*layers, f"Mine mine {inputs} 1 {names} y"))
    path.with_suffix(".bin").write_bytes(b"")

    def pushed(given: Any, made: Any, options: Any) -> list[float]:
        return [int(np.prod(made[0])), *[0.5] * (push - 1)]

    vknn.register_layer(
        "ncnn", "Mine", shape=lambda shapes, options: shapes[0], inputs=(1, None),
        compute=lambda arrays, weights, options: sum(arrays) + np.float32(0.5),
        shader=vknn.Shader(text, push=pushed, **more), replace=True,
    )  # fmt: skip
    out = folder / "net.vkb"
    shapes = {"data": (2, 3, 5)}
    vknn.export(path, out, shapes=shapes, targets="desktop", example=False, outputs=outputs)
    return Bundle.open(out)


@pytest.mark.parametrize(
    ("inputs", "block", "value", "push"),
    [
        (1, "int count; float a;", "p.a", 2),
        (1, "int count; float a;", "p.a", 3),
        (1, "int count; float a[2];", "p.a[1]", 3),
        (31, "int count; float a;", "p.a", 2),
    ],
)
def test_shaders_that_can_go(
    inputs: int, block: str, value: str, push: int, tmp_path: Path
) -> None:
    bundle = exported(tmp_path, shader(inputs, block, value), inputs, push)
    [slots] = [
        int(row["slots"])
        for row in bundle.tables[schema.PIPELINE]
        if bundle.string(row["kernel"]).startswith("custom/Mine")
    ]
    assert slots == inputs + 1


@pytest.mark.parametrize(
    ("inputs", "block", "value", "push", "text"),
    [
        (32, "int count; float a;", "p.a", 2, "binds 33 buffers, in a bundle at most 32"),
        (1, "int count; Pair a;", "p.a.b", 3, "push constants that are no numbers, vectors"),
        (1, "int count; mat2 a;", "p.a[0].x", 8, "push constants that are no numbers, vectors"),
        (1, "int count; float a, b;", "p.b", 2, "12 bytes of push constants but is given 8"),
        (1, "int count; float a;", "subgroupClusteredAdd(p.a, 4u)", 2, "SPIR-V capability 67"),
    ],
)
def test_shaders_that_no_bundle_has(
    inputs: int, block: str, value: str, push: int, text: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError) as caught:
        exported(tmp_path, shader(inputs, block, value), inputs, push)
    [reason] = caught.value.reasons
    assert reason.startswith("mine: its shader ") and text in reason and "--outputs" in reason
    assert not (tmp_path / "net.vkb").exists()
    bundle = exported(tmp_path, shader(inputs, block, value), inputs, push, outputs="a")
    assert [port.name for port in bundle.plans[0].outputs] == ["a"]


FIXED = """#version 450
layout(local_size_x = 8, local_size_y = 4) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform P { int count; float a; } p;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < p.count && gl_LocalInvocationID.y == 0) y[i] = x[i] + p.a;
}
"""


def test_sizes_of_workgroups(tmp_path: Path) -> None:
    def groups(given: Any, made: Any, options: Any) -> tuple[int, int, int]:
        return -(-int(np.prod(made[0])) // 8), 1, 1

    bundle = exported(tmp_path, FIXED, groups=groups, local=(8, 4, 1))
    assert bundle.plans[0].needs.group_size[1] == 4
    with pytest.raises(ExportError, match="mine: .* of 8x4x1 lanes, but the layer says 64x1x1"):
        exported(tmp_path, FIXED, groups=groups)


def fixed_groups(given: Any, made: Any, options: Any) -> tuple[int, int, int]:
    return -(-int(np.prod(made[0])) // 8), 1, 1


BUFFER = "layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };"
CONSTANT = "layout(constant_id = 9) const double wide = 2.0LF;\nvoid main() {"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("set = 0, binding = 1", "set = 1, binding = 1", "descriptor set 1, binding 1; there are"),
        ("set = 0, binding = 1", "set = 0, binding = 7", "binding 7; there are bindings 0 to 1 of"),
        (
            BUFFER,
            "layout(set = 0, binding = 0, std140) uniform X { float x[9]; };",
            "another kind than binding 0, which is a storage buffer",
        ),
        (
            BUFFER,
            "layout(set = 0, binding = 0, r32f) readonly uniform imageBuffer X;\n"
            "float x[4] = float[4](imageLoad(X, 0).r, 0, 0, 0);",
            "another kind than binding 0, which is a storage buffer",
        ),
    ],
)
def test_bindings_that_no_bundle_has(old: str, new: str, text: str, tmp_path: Path) -> None:
    """A layer alone would compute with them, or not, by the driver: a runner calls them damage."""
    wrong = FIXED.replace(old, new).replace("x[i] + p.a", "x[i % 4] + p.a")
    assert wrong != FIXED
    with pytest.raises(ExportError) as caught:
        exported(tmp_path, wrong, groups=fixed_groups, local=(8, 4, 1))
    [reason] = caught.value.reasons
    assert reason.startswith("mine: its shader ") and text in reason and "--outputs" in reason
    assert not (tmp_path / "net.vkb").exists()


def test_constants_of_64_bits(tmp_path: Path) -> None:
    wide = FIXED.replace("void main() {", CONSTANT).replace("+ p.a", "+ p.a * float(wide)")
    with pytest.raises(ExportError, match="mine: its shader .* other sizes than 32 bits.*--outp"):
        exported(tmp_path, wide, groups=fixed_groups, local=(8, 4, 1))
    narrow = wide.replace("double wide = 2.0LF", "float wide = 2.0")
    assert exported(tmp_path, narrow, groups=fixed_groups, local=(8, 4, 1)).plans


def test_work_that_no_run_does(tmp_path: Path) -> None:
    """The first is a run of 2^36 invocations beside those of relu, the second one less."""

    def exported_with(z: int) -> Bundle:
        return exported(tmp_path, FIXED, groups=lambda *_: (32768, 32768, z), local=(8, 4, 1))

    with pytest.raises(ExportError) as caught:
        exported_with(2)
    [reason] = caught.value.reasons
    assert reason.startswith("mine: 68,719,476,736") and "at most 68,719,476,736" in reason
    assert "inputs and outputs: " in reason and "--shape" in reason and "--outputs" in reason
    assert not (tmp_path / "net.vkb").exists()
    assert exported_with(1).plans
