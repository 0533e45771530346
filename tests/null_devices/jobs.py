"""Jobs for null devices, and the processes that do them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.peers.ncnn.networks import NETWORKS

ROOT = Path(__file__).resolve().parents[2]
#: Names of devices, by comma: tests of these instead of DEVICES (tools/test --driver).
SELECTED = "VKNN_TEST_NULL_DEVICES"
#: One of each driver or more; the first two have cooperative matrices.
DEVICES = (
    *("navi31", "nv172", "navi21", "polaris10", "gfx1201", "a740", "m1"),
    *("dg2", "tgl"),
)
#: Those that every run of the tests takes.
QUICK_DEVICES = ("navi31", "a740")
#: Devices that share their memory with the host, by what their drivers say of it. RADV lists that
#: of APUs as it does a whole BAR: a heap that the host does not cache, and one of the host's own.
SHARING = (
    *("m1", "skl", "icl", "tgl", "adl"),
    *("a630", "a660", "a730", "a740", "a750"),
)
#: Inputs of real models that leave their size open: part of the file's name -> shape.
OPEN_SHAPES = {
    "RFB-320.param": (3, 240, 320),
    "PP_OCRv5": (3, 640, 640),
    "waifu2x": (3, 256, 256),
    "squeezenet_v1.1": (3, 227, 227),
    "nanodet_m": (3, 320, 320),
}
#: precision, arithmetic.
MODES = {
    "fp32": ("fp32", "fp32"),
    "fp16": ("fp16", "fp32"),
    "fp16-arithmetic": ("fp16", "fp16"),
    "bf16": ("bf16", "fp32"),
}
#: Devices without float16 arithmetic, which "fp16-arithmetic" needs.
WITHOUT_HALF_ARITHMETIC = ("polaris10", "polaris12")
SECONDS = 300
#: Beginnings of lines that a driver or its shim may print; any other one is an error.
SAID = {
    "Unknown drm_i915_query_item": "Intel's shim does not know a question of the driver",
    "WARNING: radv is not a conformant Vulkan": "RADV, of gfx1201, whose results are not filed",
}


def selected_devices(default: tuple[str, ...] = DEVICES) -> tuple[str, ...]:
    """The devices to test: those that the environment names, else ``default``."""
    names = os.environ.get(SELECTED, "")
    return tuple(names.split(",")) if names else default


def named_devices(names: Sequence[str], quick: Sequence[str]) -> list[Any]:
    """Parameters of a test: the devices of ``names`` that are to be tested.

    Those not in ``quick`` are slow, unless the environment asks for them by name.
    """
    asked = bool(os.environ.get(SELECTED))
    return [
        pytest.param(name, marks=() if asked or name in quick else pytest.mark.slow)
        for name in names
        if name in selected_devices(tuple(names))
    ]


def model_job(path: Path, mode: str, *, frozen: bool = False) -> dict[str, Any]:
    """The job that runs a model; ``frozen``: of modules without specialization constants."""
    precision, arithmetic = MODES[mode]
    shape = NETWORKS.get(path.stem) if path.parent.parent.name == "benchmark" else None
    if shape is None:
        shape = next((s for part, s in OPEN_SHAPES.items() if part in path.name), None)
    return {
        "kind": "model",
        "name": f"{path.name} {mode}",
        "model": str(path),
        "shape": shape,
        "arrays": str(path.with_suffix(".expected.npz")) if path.suffix == ".onnx" else None,
        "precision": precision,
        "arithmetic": arithmetic,
        "frozen": frozen,
    }


def ops_job(family: str, mode: str) -> dict[str, Any]:
    """The job that runs every op case of a family by every candidate."""
    precision, arithmetic = MODES[mode]
    return {
        "kind": "ops",
        "name": f"{family} {mode}",
        "family": family,
        "precision": precision,
        "arithmetic": arithmetic,
    }


def start(
    device: str, program: Sequence[str], seconds: int = SECONDS, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A program of this Python's on a null device; skips the test where there are none."""
    command, options = _command(device, program, variables)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, **options
    )


def begin(
    device: str, program: Sequence[str], said: Any, **variables: str
) -> subprocess.Popen[bytes]:
    """As :func:`start`, without waiting; what it says on stderr goes to the file ``said``."""
    command, options = _command(device, program, variables)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, **options)


def _command(
    device: str, program: Sequence[str], variables: Mapping[str, str]
) -> tuple[list[str], dict[str, Any]]:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import null_drivers
    finally:
        sys.path.pop(0)
    try:
        null_drivers.set_up(device)
    except null_drivers.Incomplete as error:
        pytest.fail(str(error), pytrace=False)
    except null_drivers.Unavailable as error:
        pytest.skip(str(error))
    environment = {**os.environ, **null_drivers.device_environment(device), **variables}
    command = null_drivers.command(device, [sys.executable, *program])
    return command, {"cwd": ROOT, "env": environment, "stdin": subprocess.DEVNULL}


def do(device: str, jobs: Sequence[dict[str, Any]], seconds: int = SECONDS) -> list[dict[str, Any]]:
    """What the jobs found, each in at most ``seconds``.

    Fails the test with one line for each that failed, crashed or hung; behind one that crashed or
    hung a new process does the others. One that crashes when all is done and released fails, too.
    """
    if device in WITHOUT_HALF_ARITHMETIC and any(job["arithmetic"] == "fp16" for job in jobs):
        pytest.skip(f"{device} has no 16-bit arithmetic")
    found: list[dict[str, Any]] = []
    ended: dict[str, str] = {}
    failed: list[str] = []
    while left := jobs[len(found) + len(ended) :]:
        done, end, said = _in_a_child(device, left, seconds)
        found += done
        failed += [f"{device}: the driver says: {line}" for line in said]
        if len(done) < len(left):
            ended[left[len(done)]["name"]] = end or "ended early"
        elif end:
            ended["behind the last one"] = end
    failed += [f"{device}: {job['name']}: {job['error']}" for job in found if "error" in job]
    failed += [f"{device}: {name}: the process {end}" for name, end in ended.items()]
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
    return found


def _in_a_child(
    device: str, jobs: Sequence[dict[str, Any]], seconds: int
) -> tuple[list[dict[str, Any]], str, list[str]]:
    """What the first of the jobs found, and how the process ended: "" and unexpected lines of the
    driver's where it went to its end.
    """
    program = ["-m", "tests.null_devices.child", json.dumps(list(jobs))]
    variables = {"VKNN_VALIDATE": "2", "VKNN_NULL_DEVICE": "1"}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        with begin(device, program, said, **variables) as process:
            output, silent = _output(process, seconds)
        said.seek(0)
        text = said.read()
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if silent:
        return found, f"took more than {seconds} s", []
    if process.returncode:
        return found, _end(process.returncode, text), []
    lines = dict.fromkeys(text.splitlines())
    return found, "", [line for line in lines if line and not line.startswith((*SAID,))]


def _output(process: subprocess.Popen[bytes], seconds: int) -> tuple[str, bool]:
    """What a process prints, and whether it was killed as it printed nothing for so long.

    A job prints a line when it starts and one when it has ended.
    """
    assert process.stdout is not None
    output, silent = b"", False
    while not silent and (part := _part(process.stdout.fileno(), seconds)) != b"":
        output, silent = output + (part or b""), part is None
    if silent:
        process.kill()
    return output.decode(errors="replace"), silent


def _part(pipe: int, seconds: int) -> bytes | None:
    """The next bytes of a pipe: none at its end, None where there are none for so long."""
    ready, _, _ = select.select([pipe], [], [], seconds)
    return os.read(pipe, 1 << 16) if ready else None


def _end(code: int, said: str) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"{how}: {_last_line(said)}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
