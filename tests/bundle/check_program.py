"""The checks of bundles (runner/check.c) as a program of their own, under sanitizers."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER, CACHE = ROOT / "runner", ROOT / ".cache" / "runner"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILERS = ("gcc", "clang")


def compiler(name: str | None = None) -> str:
    """A C compiler's path; the test is skipped where there is none."""
    for candidate in (name,) if name else (*COMPILERS, "cc"):
        found = shutil.which(candidate)
        if found:
            return found
    pytest.skip(f"no {name or 'C compiler'} here: apt-get install {name or 'gcc'}")


@lru_cache
def program(
    flags: tuple[str, ...] = SANITIZED, name: str | None = None, checks: str | None = None
) -> Path:
    """The built program; ``checks``: text in place of check.c. Skips where it cannot be linked."""
    places = (Path(__file__).with_name("fuzz_check.c"), *sorted(RUNNER.glob("*.[ch]")))
    sources = {path.name: path.read_bytes() for path in places}
    if checks is not None:
        sources["check.c"] = checks.encode()
    command = [compiler(name), *STRICT, *flags]
    key = hashlib.sha256(repr((command, sources)).encode()).hexdigest()[:24]
    folder = CACHE / f"check-{key}"
    built = folder / "fuzz_check"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("check.c", "fuzz_check.c", "vkb.h", "vknn_run.h"):
            (folder / file).write_bytes(sources[file])
        making = folder / f"fuzz_check.{os.getpid()}"
        compile_ = [*command, str(folder / "fuzz_check.c"), "-o", str(making)]
        done = subprocess.run(compile_, capture_output=True, text=True, timeout=240)
        if "-m32" in flags and re.search(r"fatal error: (bits|sys|gnu)/|cannot find", done.stderr):
            pytest.skip("no C library of 32 bits here: apt-get install gcc-multilib")
        assert done.returncode == 0, done.stderr
        making.replace(built)
    return built


def run(arguments: Sequence[object], built: Path | None = None, limit: float = 60) -> str:
    """What the program prints; fails where it ends with an error, such as a sanitizer's."""
    done = ran(arguments, built, limit)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def ran(
    arguments: Sequence[object], built: Path | None = None, limit: float = 60
) -> subprocess.CompletedProcess[str]:
    """The program, run to its end. A leak is an error, too."""
    options = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run(
        [str(built or program()), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=limit,
        env={**os.environ, **options},
    )


def opened(
    bundles: Iterable[bytes], folder: Path, built: Path | None = None
) -> list[tuple[int, str]]:
    """Status and message of opening each file with these bytes."""
    paths = []
    for number, data in enumerate(bundles):
        paths.append(folder / f"{number}.vkb")
        paths[-1].write_bytes(data)
    lines = (line.partition(" ") for line in run(["open", *paths], built).splitlines())
    return [(int(status), message) for status, _, message in lines]
