"""Reader and runner hold bundles to the same rules: ``vknn bundle`` refuses what a phone would."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import check_program, mutations
from tests.bundle.broken_rules import CASES
from tests.bundle.mutations import Parts
from tests.small_model import write_small_model

import vknn
from vknn.bundle import plans, record_checks, schema
from vknn.bundle.module_structure import check_module
from vknn.bundle.reader import Bundle
from vknn.bundle.shader_rules import PipelineParts, check_pipeline
from vknn.errors import ExportError, ModelFormatError

pytestmark = pytest.mark.glsl

#: Numbers that fields are given: small ones, borders of formats and limits, and beyond them.
NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 96, 128, 256, 512, 768, 1024, 1025),
    *(
        1 << 16,
        1 << 31,
        (1 << 32) - 2,
        (1 << 32) - 1,
        1 << 36,
        1 << 48,
        (1 << 48) + 4,
        (1 << 64) - 4,
    ),
)

#: Those that rules are on.
OPCODES = (11, 14, 15, 16, 17, 19, 21, 43, 50, 54, 56, 57, 59, 71, 72, 331, 332)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return mutations.rich_bundle(tmp_path_factory.mktemp("rich"))


def read(data: bytes) -> str:
    """What the reader says of a bundle; empty where it takes it."""
    try:
        opened = Bundle.of(data, "net.vkb")
    except ModelFormatError as error:
        return str(error)
    for plan in opened.plans:  # all of it can be had, but for blobs with a wrong sum
        assert plan.needs and plan.ports
        with contextlib.suppress(ModelFormatError):
            assert plan.states is not None and plan.examples is not None
    return ""


def test_the_whole_bundle_is_read(bundle: bytes) -> None:
    assert read(bundle) == ""


@pytest.mark.parametrize("name", CASES)
def test_each_rule_of_the_runner_is_the_readers(bundle: bytes, name: str) -> None:
    told = read(mutations.changed(bundle, CASES[name][0]))
    assert "net.vkb: section " in told and "export the bundle again" in told


def with_number(data: bytes, generator: np.random.Generator) -> tuple[str, bytes]:
    """A bundle with another number in a field of a record, and which that is."""
    parts = Parts.of(data)
    record = schema.RECORDS[generator.integers(len(schema.RECORDS))]
    rows = parts.table(record)
    field = record.fields[generator.integers(len(record.fields))]
    row, number = int(generator.integers(len(rows))), int(generator.choice(len(NUMBERS)))
    dtype = rows[field.name].dtype
    value = np.float32(NUMBERS[number]) if dtype.kind == "f" else NUMBERS[number]
    if dtype.kind in "iu":
        value = np.array(value & ((1 << 8 * dtype.itemsize) - 1), f"u{dtype.itemsize}").view(dtype)
    axis = (int(generator.integers(field.count)),) if field.count > 1 else ()
    rows[field.name][(row, *axis)] = value
    return f"{record.name} {row}: {field.name}{list(axis)} = {value}", parts.joined()


def with_word(data: bytes, generator: np.random.Generator) -> tuple[str, bytes]:
    """A bundle with another word in a module, and which that is: an id, an opcode or a size."""
    parts = Parts.of(data)
    module = int(generator.integers(2))
    spirv = parts.words(module)
    at = int(generator.integers(len(spirv)))
    word, opcode = int(spirv[at]), int(generator.choice(OPCODES))
    others = (word + 1, word - 1, word ^ 1 << 16, opcode, word & 0xFFFF0000 | opcode, 0, 12)
    spirv[at] = int(generator.choice(others)) & 0xFFFFFFFF
    return f"module {module}: word {at}: {word:#x} -> {spirv[at]:#x}", parts.joined()


@pytest.mark.parametrize("change", [with_number, with_word])
def test_both_say_the_same_of_what_is_changed_by_chance(
    change: Callable[[bytes, np.random.Generator], tuple[str, bytes]], bundle: bytes, tmp_path: Path
) -> None:
    generator = np.random.default_rng(12)
    changed = [change(bundle, generator) for _ in range(1500)]
    told = check_program.opened((data for _, data in changed), tmp_path)
    apart = []
    for (what, data), (status, message) in zip(changed, told, strict=True):
        mine = read(data)
        # An array of an example ends with a row: only the reader makes arrays of them.
        if bool(mine) != bool(status) and "section example: " not in mine:
            apart.append((what, message, mine))
    assert not apart, "\n".join(map(str, apart))
    refused = sum(status != 0 for status, _ in told)
    assert 300 < refused < len(changed) - 300


def test_both_look_at_as_many_words_of_shaders(
    bundle: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take the bundle with a limit just above its number, and refuse it well below."""
    parts = Parts.of(bundle)
    seen = sum(check_module(parts.words(module).tobytes()) for module in range(2))

    def noted(spirv: bytes, parts: PipelineParts) -> int:
        nonlocal seen
        looked_at = check_pipeline(spirv, parts)
        seen += looked_at
        return looked_at

    monkeypatch.setattr(record_checks, "check_pipeline", noted)
    assert read(bundle) == ""
    monkeypatch.setattr(record_checks, "check_pipeline", check_pipeline)
    text = (check_program.RUNNER / "check.c").read_text(encoding="utf-8")
    for most in (seen * 3 // 4, seen + 1):
        changed = re.sub(r"#define MOST_VISITS .*", f"#define MOST_VISITS (uint64_t){most}", text)
        assert changed != text
        built = check_program.program(checks=changed)
        [(status, _)] = check_program.opened([bundle], tmp_path, built)
        monkeypatch.setattr(record_checks, "MOST_VISITS", most)
        assert bool(status) is bool(read(bundle)) is (most < seen)


def test_more_pipelines_than_a_runner_looks_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_small_model(tmp_path)
    monkeypatch.setattr(plans, "FEW_PIPELINES", 1)
    assert vknn.export(model, tmp_path / "net.vkb", example=False).plans
    monkeypatch.setattr(record_checks, "MOST_VISITS", 10_000)
    (tmp_path / "net.vkb").unlink()
    with pytest.raises(ExportError, match=r"pipelines in all, .*--shape.*--target"):
        vknn.export(model, tmp_path / "net.vkb", example=False)
    assert not (tmp_path / "net.vkb").exists()
