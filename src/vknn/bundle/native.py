"""The program ``vknn-run``: found, or compiled from a checkout's ``runner/``, and run on arrays."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from vknn.bundle.records import BundlePlan
from vknn.errors import DeviceError, InputError, VknnError
from vknn.runtime.spirv.glsl import checkout_root

COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=c99", "-O2")
_LIBRARIES = ("-lpthread", "-ldl", "-lm")


def missing_compiler() -> str | None:
    """Reason why vknn-run cannot be compiled here; None where it can."""
    if _sources() is None:
        return "vknn is installed without the sources of vknn-run: name the program with --runner"
    if _compiler() is None:
        return f"there is no C compiler ({', '.join(COMPILERS)}): install gcc"
    return None


@contextmanager
def program_here(named: Path | None) -> Iterator[tuple[Path | None, str]]:
    """vknn-run: the one that is named, else a checkout's, compiled; or why there is none."""
    if named is not None:
        yield named, ""
        return
    reason = missing_compiler()
    if reason is not None:
        yield None, reason
        return
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        yield compiled_program(Path(folder)), ""


def compiled_program(folder: Path) -> Path:
    """vknn-run, compiled into a folder. Raises VknnError with what the compiler says."""
    reason = missing_compiler()
    if reason is not None:
        raise VknnError(f"vknn-run cannot be compiled: {reason}")
    sources, compiler = _sources(), _compiler()
    assert sources is not None and compiler is not None
    program = folder / "vknn-run"
    files = [str(sources / name) for name in ("main.c", "vknn_run.c")]
    command = [compiler, *_FLAGS, *files, "-o", str(program), *_LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise VknnError(f"vknn-run cannot be compiled: {done.stderr.strip()[:2000]}")
    return program


def run_program(
    program: Path,
    bundle: Path,
    plan: BundlePlan,
    feeds: Mapping[str, np.ndarray],
    more: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Outputs of a plan for inputs, by name, computed by vknn-run; ``more``: options of it.

    Raises DeviceError with what it says where it fails, and InputError for inputs that are not
    those of the plan.
    """
    ports = {port.name: port for port in plan.inputs}
    if set(ports) != set(feeds):
        raise InputError(f"inputs are {', '.join(feeds)}, expected {', '.join(ports)}")
    with tempfile.TemporaryDirectory(prefix="vknn-") as name:
        folder = Path(name)
        # Whole paths: no name is looked up in PATH, or taken for an option.
        command = [
            str(program.absolute()),
            str(bundle.absolute()),
            "--target",
            plan.target,
            "--shape",
            plan.shapes,
        ]
        for number, (port, array) in enumerate(feeds.items()):
            np.save(folder / f"in{number}.npy", ports[port].encoded(array))
            command += ["--input", f"{port}={folder}/in{number}.npy"]
        outputs = {port.name: folder / f"out{n}.npy" for n, port in enumerate(plan.outputs)}
        for port, path in outputs.items():
            command += ["--output", f"{port}={path}"]
        try:
            done = subprocess.run(
                [*command, *more], capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise VknnError(f"{os.fspath(program)} cannot be run: {error}") from None
        if done.returncode:
            told = done.stderr.strip()[-2000:] or f"it ended with {done.returncode}"
            raise DeviceError(f"{os.fspath(program)}: {told}")
        try:
            return {port: np.load(path) for port, path in outputs.items()}
        except (OSError, ValueError) as error:
            raise DeviceError(f"{os.fspath(program)} wrote no outputs: {error}") from None


def _sources() -> Path | None:
    root = checkout_root()
    folder = None if root is None else root.parent / "runner"
    return folder if folder is not None and (folder / "vknn_run.c").is_file() else None


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, COMPILERS)), None)
