"""Sweeping of SPIR-V modules: they are smaller, whole, and compute the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import skip_without_half
from tests.small_model import write_small_model

import vknn
from vknn.runtime import pipelines
from vknn.runtime.spirv import words
from vknn.runtime.spirv.modules import compile_glsl
from vknn.runtime.spirv.specialize import specialized
from vknn.runtime.spirv.sweep import swept

SOURCE = """#version 450
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 0) const int lanes = 1;
layout(constant_id = 1) const int rows = 1;
layout(constant_id = 7) const int code = 0;
layout(constant_id = 8) const bool twice = false;
layout(set = 0, binding = 0, std430) buffer B { float b[]; };
layout(set = 0, binding = 1, std430) buffer C { float c[]; };
float never(float v) { for (int i = 0; i < 9; ++i) v = sin(v) + c[i]; return v; }
float loops(float v, int n) {
    for (int i = 0; i < n; ++i) {
        if (code == 3) { if (v > 5.0) break; else if (v > 2.0) continue; else return v; }
        v *= 1.5;
        if (twice) return v;
    }
    return v;
}
void main() {
    float v = b[gl_LocalInvocationIndex];
    switch (code) {
    case 1: v = -v; break;
    case 2: v = never(v); break;
    case 3: v = loops(v, 4); break;
    default: v = v > 1.0 && v < 3.0 ? exp(v) : v;
    }
    b[gl_LocalInvocationIndex] = v;
}
"""
CODES = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def spirv() -> bytes:
    return compile_glsl(SOURCE)


def opcodes(module: bytes) -> list[int]:
    return [opcode for opcode, _ in words.instructions(words.unpacked(module))]


def check_whole(module: bytes, folder: Path) -> None:
    """Every label is there, and the validator has nothing to say where it is installed."""
    parts = list(words.instructions(words.unpacked(module)))
    labels = {operands[0] for opcode, operands in parts if opcode == words.LABEL}
    for opcode, operands in parts:
        if opcode == words.BRANCH:
            assert operands[0] in labels
        elif opcode == words.BRANCH_CONDITIONAL:
            assert labels.issuperset(operands[1:3])
    if shutil.which("spirv-val"):
        (folder / "m.spv").write_bytes(module)
        command = ["spirv-val", "--target-env", "vulkan1.2", str(folder / "m.spv")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.glsl
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_what_is_cut_off_goes(code: int, twice: bool, spirv: bytes, tmp_path: Path) -> None:
    folded = specialized(spirv, [(7, code), (8, twice)])
    found = swept(folded)
    check_whole(found, tmp_path)
    assert len(found) < 0.9 * len(folded)
    assert swept(found) == found
    functions = {0: 1, 1: 1, 2: 2, 3: 2}
    assert opcodes(found).count(words.FUNCTION) == functions[code]
    assert words.NAME not in opcodes(found)


@pytest.mark.glsl
def test_the_workgroup_size_and_its_constants_stay(spirv: bytes) -> None:
    found = list(words.instructions(words.unpacked(swept(specialized(spirv, [(7, 1)])))))
    kept = {o[2] for opcode, o in found if opcode == words.DECORATE and o[1] == words.SPEC_ID}
    assert {0, 1} <= kept
    assert any(opcode == words.DECORATE and o[1:] == (11, 25) for opcode, o in found)


@pytest.mark.glsl
def test_a_variable_that_nothing_names_goes_with_its_binding(spirv: bytes) -> None:
    def bindings(module: bytes) -> set[int]:
        parts = words.instructions(words.unpacked(module), (words.DECORATE,))
        return {operands[2] for _, operands in parts if operands[1] == 33}

    assert bindings(spirv) == {0, 1}
    assert bindings(swept(specialized(spirv, [(7, 1)]))) == {0}
    assert bindings(swept(specialized(spirv, [(7, 2)]))) == {0, 1}


@pytest.mark.parametrize("data", [b"", b"\x03\x02#\x07", bytes(40), b"#!/bin/sh\n" * 3])
def test_what_is_no_module_stays(data: bytes) -> None:
    assert swept(data) == data


@pytest.mark.glsl
def test_a_damaged_module_stays_or_shrinks(spirv: bytes) -> None:
    """Words of any value: no error, no hang."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        code = np.frombuffer(spirv, np.uint32).copy()
        places = rng.integers(5, len(code), 3)
        code[places] = rng.integers(0, 1 << 20, 3)
        assert len(swept(code.tobytes())) <= len(spirv)
    for end in range(0, len(spirv), 52):
        assert len(swept(spirv[:end])) <= len(spirv)


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_networks_compute_the_same(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if precision == "fp16":
        skip_without_half()
    sizes: list[tuple[int, int]] = []

    def swept_as_well(spirv: bytes, constants: object) -> bytes:
        folded = specialized(spirv, constants)  # type: ignore[arg-type]
        found = swept(folded)
        check_whole(found, tmp_path)
        sizes.append((len(folded), len(found)))
        return found

    model = write_small_model(tmp_path)
    answers = []
    for _ in range(2):
        with vknn.Session(model, device="vulkan", precision=precision) as session:
            feeds = {"data": np.random.default_rng(1).random((3, 8, 8), dtype=np.float32)}
            answers.append(session.run(feeds))
        monkeypatch.setattr(pipelines, "specialized", swept_as_well)
    assert len(sizes) > 3
    assert sum(after for _, after in sizes) < sum(before for before, _ in sizes) / 2
    for name, array in answers[0].items():
        assert np.array_equal(array, answers[1][name])
