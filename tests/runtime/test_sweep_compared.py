"""Sweeping of SPIR-V modules against a slow sweep of instructions in lists: the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.slow_sweep import slowly_swept
from tests.runtime.test_sweep import CODES, SOURCE
from tests.small_model import write_small_model

import vknn
from vknn.bundle import modules
from vknn.runtime.spirv import words
from vknn.runtime.spirv.modules import compile_glsl
from vknn.runtime.spirv.specialize import specialized
from vknn.runtime.spirv.sweep import swept

pytestmark = pytest.mark.glsl


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_branches_and_loops(code: int, twice: bool) -> None:
    folded = specialized(compile_glsl(SOURCE), [(7, code), (8, twice)])
    assert swept(folded) == slowly_swept(folded) != folded


@pytest.mark.parametrize(("target", "precision"), [("generic", "fp32"), ("adreno-7xx", "fp16")])
def test_modules_of_a_network(
    target: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[bytes, bytes] = {}

    def noted(spirv: bytes, constants: tuple[tuple[int, int], ...], _: object) -> bytes:
        folded = specialized(spirv, constants)
        return found.setdefault(folded, swept(folded))

    modules.forget()
    monkeypatch.setattr(modules, "kept_sweep", noted)
    vknn.export(
        write_small_model(tmp_path), tmp_path / "net.vkb", targets=target, precision=precision,
        example=False,
    )  # type: ignore[arg-type]  # fmt: skip
    assert len(found) > 3
    for before, after in found.items():
        assert after == slowly_swept(before)
        assert len(after) < len(before)


def test_constants_that_modes_name_stay() -> None:
    """OpExecutionModeId stands in front of the constants of its size."""
    void, function, main, label, integer, eight, nine = range(1, 8)
    parts = [
        (17, [1]),  # OpCapability Shader
        (14, [0, 1]),  # OpMemoryModel
        (15, [5, main, *words.unpacked(b"main\0\0\0\0")]),
        (331, [main, 38, eight, eight, eight]),  # OpExecutionModeId LocalSizeId
        (19, [void]),
        (33, [function, void]),
        (words.TYPE_INT, [integer, 32, 0]),
        (words.CONSTANT, [integer, eight, 8]),
        (words.CONSTANT, [integer, nine, 9]),
        (words.FUNCTION, [void, main, 0, function]),
        (words.LABEL, [label]),
        (253, []),  # OpReturn
        (56, []),  # OpFunctionEnd
    ]
    module = words.packed([words.MAGIC, 0x10300, 0, 8, 0, *words.flat(parts)])
    left = [p for p in parts if p != (words.CONSTANT, [integer, nine, 9])]
    found = swept(module)
    assert [(o, list(a)) for o, a in words.instructions(words.unpacked(found))] == left
    assert slowly_swept(module) == found
