"""Mutated bundles that pass the checks, run on the device by vknn-run under sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build, check_program
from tests.bundle.mutations import Parts
from tests.bundle.networks import small
from tests.bundle.test_runner_sanitized import ADDRESS
from tests.helpers import shared_device

from vknn.bundle import schema
from vknn.bundle.schema import TableRecord

pytestmark = pytest.mark.device

#: What shaders compute with is left as it is: they are programs, which no check makes safe.
TABLES = tuple(r for r in schema.RECORDS if r not in (schema.CONSTANT, schema.MODULE))
#: Seconds of a run, bytes of memory.
LIMITS = ("--runs", "2", "--time-limit", "5", "--memory-limit", str(1 << 30))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small(tmp_path_factory.mktemp("small")).path.read_bytes()


@pytest.fixture(scope="module")
def program() -> Path:
    return build.program(build.RUNNER / "main.c", *ADDRESS)


def mutation(bundle: bytes, rng: np.random.Generator) -> bytes:
    """A bundle with one to three fields of its tables changed, and right sums."""
    parts = Parts.of(bundle)
    tables = [record for record in TABLES if record.section in parts.bodies]
    for _ in range(rng.integers(1, 4)):
        _change(parts, tables[rng.integers(len(tables))], rng)
    return parts.joined()


def _change(parts: Parts, record: TableRecord, rng: np.random.Generator) -> None:
    table = parts.table(record)
    field = record.fields[rng.integers(len(record.fields))]
    column = table[field.name].reshape(len(table), -1)
    row, axis = rng.integers(column.shape[0]), rng.integers(column.shape[1])
    old, other = column[row, axis], column[rng.integers(column.shape[0]), axis]
    if field.kind == "f32":
        column[row, axis] = rng.choice([0, -1, np.inf, np.nan, 1e30, 2 * old])
        return
    bits = 8 * column.dtype.itemsize
    most, old = (1 << bits) - 1, int(old) & ((1 << bits) - 1)
    choices = [0, 1, 2, 3, 4, 7, 64, 256, 4096, 1 << 16, 1 << 28, 1 << 31, most, old + 1, old - 1]
    choices += [2 * old, old // 2, old ^ 1 << int(rng.integers(bits)), int(other) & most]
    choice = choices[rng.integers(len(choices))] & most
    column[row, axis] = np.array(choice, f"<u{bits // 8}").view(column.dtype)


def mutations(bundle: bytes, count: int, seed: int, folder: Path) -> list[Path]:
    """Files of mutations that the checks let through."""
    rng = np.random.default_rng(seed)
    found: list[Path] = []
    while len(found) < count:
        tried = [mutation(bundle, rng) for _ in range(4 * count)]
        told = check_program.opened(tried, folder)
        for data, (status, _) in zip(tried, told, strict=True):
            if status == 0 and len(found) < count:
                found.append(folder / f"mutation-{len(found)}.vkb")
                found[-1].write_bytes(data)
    return found


def check_runs(program: Path, paths: list[Path]) -> None:
    """Check that each is run, or refused with a sentence: no crash, no hang."""
    ran = 0
    for path in paths:
        command = [program, path, "--profile", *LIMITS]  # inputs are zeros
        # The loader's and the driver's own leaks cannot be told from others once they are unloaded.
        env = {**os.environ, "VKNN_VALIDATE": "0", "ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
        assert done.returncode in (0, 1, 2), f"{path}: {done.returncode} {done.stderr[-2000:]}"
        assert done.returncode == 0 or done.stderr.startswith("vknn-run: "), done.stderr[-2000:]
        ran += done.returncode == 0
    assert ran > len(paths) // 4


def test_some_mutations_run_or_are_refused(bundle: bytes, program: Path, tmp_path: Path) -> None:
    check_runs(program, mutations(bundle, 8, 1, tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(10))
def test_mutations_run_or_are_refused(
    bundle: bytes, program: Path, tmp_path: Path, seed: int
) -> None:
    check_runs(program, mutations(bundle, 30, 100 + seed, tmp_path))


def test_absurd_sizes_are_refused_with_what_is_there(
    bundle: bytes, program: Path, tmp_path: Path
) -> None:
    huge = {
        "arenas": (schema.PLAN, "arenas", 1 << 46, "bytes"),
        "storage_range": (schema.PLAN, "storage_range", 1 << 60, "bytes in a storage buffer"),
        "group_count": (schema.PLAN, "group_count", 0xFFFFFFFF, "workgroups"),
        "shared_memory": (schema.PLAN, "shared_memory", 1 << 30, "shared memory"),
        "matrices": (schema.PLAN, "features", 1 << 8, "cooperative matrices"),
    }
    if shared_device().name.startswith("llvmpipe"):  # the others end no loops
        huge["loop_rounds"] = (schema.PLAN, "loop_rounds", 0xFFFFFFFF, "rounds")
    for name, (record, field, value, said) in huge.items():
        parts = Parts.of(bundle)
        column = parts.table(record)[field]
        column[...] = column | value if field == "features" else value
        path = tmp_path / f"{name}.vkb"
        path.write_bytes(parts.joined())
        done = subprocess.run([program, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and said in done.stderr, (name, done.stderr)


def test_weights_of_absurd_sizes_are_refused(bundle: bytes, program: Path, tmp_path: Path) -> None:
    parts = Parts.of(bundle)
    buffers = parts.table(schema.BUFFER)
    weight = np.flatnonzero(buffers["role"] == schema.BufferRole.WEIGHT)[0]
    buffers["nbytes"][weight] = 1 << 40
    parts.table(schema.PLAN)["storage_range"] = 1 << 40
    path = tmp_path / "weight.vkb"
    path.write_bytes(parts.joined())
    done = subprocess.run([program, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "bytes" in done.stderr, done.stderr
