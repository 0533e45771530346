"""Builds of the C sources of runner/ for tests, kept under .cache/runner by sources and flags."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.counting.layer import Unbuildable, headers, locked

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "runner"
CACHE = ROOT / ".cache"
#: What all of it has to be clean of.
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = ("cc", "gcc", "clang")


def library(*flags: str, compiler: str | None = None) -> Path:
    """The shared library of the runner; skips the test where it cannot be built."""
    more = ("-shared", "-fPIC", "-fvisibility=hidden", *flags)
    return built("libvknn_run.so", [RUNNER / "vknn_run.c"], more, compiler)


def program(source: Path, *flags: str, compiler: str | None = None) -> Path:
    """A program of a C file beside the runner; skips the test where it cannot be built."""
    return built(source.stem, [source, RUNNER / "vknn_run.c"], flags, compiler)


def built(
    name: str, sources: Sequence[Path], flags: Sequence[str], compiler: str | None = None
) -> Path:
    """The file that a compiler makes of the sources; skips where there is none, or no headers."""
    found = next(filter(None, map(shutil.which, (compiler,) if compiler else COMPILERS)), None)
    if found is None:
        pytest.skip(f"needs a C compiler ({compiler or ', '.join(COMPILERS)})")
    command = [found, *STRICT, "-O1", "-g", "-pthread", f"-I{RUNNER}", f"-I{_headers()}", *flags]
    folder = CACHE / "runner" / _key(command, sources)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    with locked(folder):
        if not target.exists():
            _compile([*command, *map(str, sources), "-ldl", "-lm"], target)
    return target


def _compile(command: list[str], target: Path) -> None:
    part = target.with_suffix(".part")
    done = subprocess.run([*command, "-o", str(part)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:4000]}"
    part.rename(target)


@functools.cache
def _headers() -> Path:
    shared = CACHE / "vulkan_layer"
    shared.mkdir(parents=True, exist_ok=True)
    try:
        return headers(shared)
    except Unbuildable:
        return RUNNER / "headers"


def _key(command: Sequence[str], sources: Sequence[Path]) -> str:
    found = hashlib.sha256(repr(command).encode())
    for path in sorted({*RUNNER.glob("*.[ch]"), *sources}):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
