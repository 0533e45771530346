"""The runner for other systems and processors: compiled by zig; for 64-bit ARM, run by qemu."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.counting.layer import locked
from tests.bundle import build
from tests.bundle.networks import MODELS
from tests.small_model import write_small_model

import vknn
from vknn.bundle import schema
from vknn.bundle.reader import Bundle
from vknn.bundle.targets import TARGETS as TARGETS_OF_BUNDLES

#: The first build for a target compiles its C library too, which takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = build.ROOT
SMALL = ("-Oz", "-s", "-DVKNN_SMALL")
#: C needs no unwinding. (Windows has handlers of its own, which take it.)
ELF_ONLY = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
SECTIONS = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
#: Target of zig -> the first bytes of its files.
TARGETS = {
    "aarch64-linux-gnu": b"\x7fELF\x02\x01",
    "aarch64-linux-musl": b"\x7fELF\x02\x01",
    "arm-linux-gnueabihf": b"\x7fELF\x01\x01",
    "x86-linux-musl": b"\x7fELF\x01\x01",
    "x86_64-windows-gnu": b"MZ",
    "aarch64-windows-gnu": b"MZ",
    "x86-windows-gnu": b"MZ",
    "aarch64-macos": b"\xcf\xfa\xed\xfe",
}
#: What a program and a library may take on 64-bit ARM.
MOST_BYTES = 64 * 1024
SQUEEZENET = "ncnn/squeezenet_v1.1.param"
NARROW = {"LP_NATIVE_VECTOR_WIDTH": "128"}


def zig(target: str, sources: Sequence[Path], flags: Sequence[str], name: str) -> Path:
    """A file that zig makes, kept under .cache/runner; skips where zig is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs zig (pip install ziglang)")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *build.STRICT, *flags]
    contents = hashlib.sha256(repr(command).encode())
    for path in sorted(build.RUNNER.rglob("*.[ch]")):
        contents.update(path.read_bytes())
    folder = build.CACHE / "runner" / f"{target}-{contents.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not (folder / name).exists():
            part = folder / "part" / name  # a library for Windows has its name in it
            part.parent.mkdir(exist_ok=True)
            # With the runner's own part of Vulkan's headers: zig does not look into /usr/include.
            done = subprocess.run(
                [*command, f"-I{build.RUNNER}", *map(str, sources), "-o", str(part)],
                env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(build.CACHE / "zig")},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[:4000]
            part.rename(folder / name)
    return folder / name


def small_flags(target: str) -> tuple[str, ...]:
    """What makes the smallest files."""
    glibc = ("-moutline", "-Wl,--hash-style=gnu") if target == "aarch64-linux-gnu" else ()
    return (*SMALL, *(ELF_ONLY if "linux" in target else ()), *glibc)


def program(target: str) -> Path:
    sources = [build.RUNNER / "vknn_run.c", build.RUNNER / "main.c"]
    name = "vknn-run.exe" if "windows" in target else "vknn-run"
    return zig(target, sources, (*small_flags(target), *SECTIONS), name)


def library(target: str) -> Path:
    flags = (*small_flags(target), "-shared", "-fPIC", "-fvisibility=hidden", "-DVKNN_SHARED")
    suffix = "dll" if "windows" in target else "dylib" if "macos" in target else "so"
    return zig(target, [build.RUNNER / "vknn_run.c"], flags, f"libvknn_run.{suffix}")


@pytest.mark.parametrize("target", TARGETS)
def test_program_and_library(target: str) -> None:
    sizes = []
    for path in (program(target), library(target)):
        contents = path.read_bytes()
        assert contents.startswith(TARGETS[target])
        sizes.append(len(contents))
    print(f"{target}: program {sizes[0]} bytes, library {sizes[1]} bytes")
    assert b"vknn_net_open_file\0" in contents
    if target == "aarch64-linux-gnu":
        assert max(sizes) <= MOST_BYTES, sizes


def test_warnings_are_errors(tmp_path: Path) -> None:
    source = tmp_path / "unused.c"
    source.write_text("static int nobody(void) { return 1; }\nint main(void) { return 0; }\n")
    with pytest.raises(AssertionError, match="nobody"):
        zig("aarch64-linux-gnu", [source], SMALL, "unused")


@pytest.fixture(scope="module")
def drivers() -> Any:
    """tools/arm64_drivers, set up; skips where they cannot be had."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import arm64_drivers
        from debian import Unavailable
    finally:
        sys.path.remove(str(ROOT / "tools"))
    try:
        arm64_drivers.set_up()
    except Unavailable as error:
        pytest.skip(f"llvmpipe for 64-bit ARM: {error}")
    return arm64_drivers


def ran(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def driver_of(devices: str) -> str:
    """The driver's version in the line of llvmpipe, which the bits hang on."""
    [line] = [line for line in devices.splitlines() if "llvmpipe" in line]
    return line.rpartition("  ")[2]


def bundle_of(folder: Path, name: str) -> tuple[Path, dict[str, list[str]]]:
    """A bundle for llvmpipe with 128 bits, and the names of its inputs and outputs."""
    model = write_small_model(folder) if name == "small" else MODELS / name
    shapes = {"small": {"data": (3, 8, 8)}, SQUEEZENET: {"data": (3, 227, 227)}}.get(name)
    path = folder / "net.vkb"
    limits = replace(TARGETS_OF_BUNDLES["llvmpipe"], subgroup_size=4)
    vknn.export(model, path, shapes=shapes, targets=limits)
    bundle = Bundle.open(path)
    ports: dict[str, list[str]] = {"input": [], "output": []}
    rng = np.random.default_rng(7)
    for port in bundle.tables[schema.PORT]:
        kind = ("input", "output")[port["direction"]]
        ports[kind].append(bundle.string(port["name"]))
        if kind == "input":
            shape = tuple(map(int, port["dims"][: port["rank"]]))
            data = rng.standard_normal(shape).astype(np.float32)
            np.save(folder / f"{ports[kind][-1]}.npy", data)
    return path, ports


@pytest.mark.device
@pytest.mark.parametrize("name", ["small", "onnx/mnist_cntk.onnx", SQUEEZENET])
def test_bits_of_arm_are_those_of_x86(tmp_path: Path, drivers: Any, name: str) -> None:
    programs = {
        "arm": drivers.command([str(program("aarch64-linux-gnu"))]),
        "x86": [str(build.program(build.RUNNER / "main.c"))],
    }
    variables = {"arm": {**drivers.environment(), **NARROW}, "x86": NARROW}
    made_by = {k: driver_of(ran([*programs[k], "--devices"], variables[k])) for k in programs}
    if made_by["arm"] != made_by["x86"]:
        pytest.skip(f"llvmpipe is another for ARM: {made_by}")
    path, ports = bundle_of(tmp_path, name)
    given = [x for p in ports["input"] for x in ("--input", f"{p}={tmp_path / p}.npy")]
    found = {}
    for kind, command in programs.items():
        taken = [x for p in ports["output"] for x in ("--output", f"{p}={tmp_path / kind}-{p}.npy")]
        begin = [*command, str(path), "--time-limit", "600"]
        ran([*begin, *given, *taken], variables[kind])
        ran([*begin, "--test"], variables[kind])
        found[kind] = {p: np.load(tmp_path / f"{kind}-{p}.npy") for p in ports["output"]}
    for port in ports["output"]:
        np.testing.assert_array_equal(found["arm"][port], found["x86"][port])
