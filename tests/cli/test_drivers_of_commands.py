"""Commands whose driver crashes or hangs: one line with the device's name; and their ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from tests.bad_drivers import faulty, library, manifest, names, vknn, working
from tests.signals import heard
from tests.small_model import SHAPE, write_small_model

from vknn.cli.main import APART, COMMANDS

pytestmark = [pytest.mark.device, pytest.mark.long]  # processes of their own

#: What is given to a command that opens a device: {} is a folder with the files of `files`.
GIVEN = {
    "run": ("{}/small.param", "--input", "{}/data.npy"),
    "verify": ("{}/small.param", "--input", "{}/data.npy"),
    "bench": ("{}/small.param", "--input", "{}/data.npy"),
    "dump": ("{}/small.param", "--input", "{}/data.npy", "-o", "{}/tensors.npz"),
    "profile": ("{}/small.param", "--runs", "1", "--trace", "{}/trace.json"),
    "tune": ("{}/small.param", "--runs", "1"),
    "info": ("{}/small.param", "--plan"),
    "bundle": ("{}/small.vkb", "--check"),
    "compare": ("{}/small.param", "--against", "{}/theirs.npz"),
    "kernel": ("extract", "{}/small.param", "{}/lab", "--layer", "conv1"),
    "batch": ("{}/small.param", "{}/records.npy", "--output", "{}/answers", "--engine", "local"),
    "reduce": ("{}/small.param", "--input", "{}/data.npy", "-o", "{}/reduced"),
    "bisect": ("{}/small.param", "--input", "{}/data.npy"),
}
#: Commands that list devices alone, or open none.
OTHERS = {"devices", "batch-node", "report", "export"}
#: Commands that end with the first crash of a compiler. The others compile nothing themselves, have
#: processes of their own for that, or go on.
COMPILING = sorted(GIVEN.keys() - {"info", "kernel", "reduce", "bisect", "batch"})


#: Seconds that no call takes on a busy machine but one that hangs.
SECONDS = 15
#: A program that is vknn, whose drivers have few seconds for a call.
IMPATIENT = """
import sys
from functools import partial
from vknn.cli import batch, child, supervised
from vknn.cli.main import console
seconds = int(sys.argv.pop(1))
child.apart = partial(child.apart, seconds)
batch.supervised = partial(supervised.supervised, seconds=seconds)
sys.argv[0] = "vknn"
console()
"""


def impatient(given: Sequence[str], variables: Mapping[str, str]) -> CompletedProcess[str]:
    """A command whose drivers have SECONDS for a call."""
    return subprocess.run(
        [sys.executable, "-c", IMPATIENT, str(SECONDS), *given],
        env={**os.environ, "VKNN_VALIDATE": "0", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a model, its inputs, its bundle and another engine's tensors."""
    model = write_small_model(tmp_path)
    np.save(tmp_path / "data.npy", np.ones(SHAPE, np.float32))
    np.save(tmp_path / "records.npy", np.ones((2, *SHAPE), np.float32))
    return model.parent


def made(command: str, folder: Path) -> list[str]:
    """The arguments of a command, whose files are made where others write them."""
    model = str(folder / "small.param")
    if command == "bundle":
        done = vknn("export", model, "-o", str(folder / "small.vkb"), drivers="")
        assert done.returncode == 0, done.stderr
    if command == "compare":
        given = ("--device", "numpy", "-o", str(folder / "theirs.npz"))
        assert vknn("dump", model, *given, drivers="").returncode == 0
    return [command, *(text.format(folder) for text in GIVEN[command])]


def device() -> str:
    return names(vknn("devices", "--json", drivers=working()).stdout)[0]


def test_every_command_is_one_of_these() -> None:
    assert GIVEN.keys() | OTHERS == COMMANDS.keys()
    assert COMMANDS.keys() >= APART and "tune" in APART


@pytest.mark.parametrize("command", GIVEN)
def test_a_device_that_cannot_be_opened(command: str, files: Path) -> None:
    given = made(command, files)
    done = vknn(*given, drivers=working(), variables=faulty("vkCreateDevice", 1, "crash"))
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    told = f"{device()}: opening the device: the driver crashed (SIGSEGV); update it, or "
    assert line.startswith("vknn: error: ") and line.endswith(f"{told}choose another device")


@pytest.mark.parametrize("command", COMPILING)
def test_a_compiler_that_crashes(command: str, files: Path) -> None:
    # Without what compiles beside the program, and submits for that.
    fault = {**faulty("vkCreateComputePipelines", 1, "crash"), "VKNN_DISABLE": "precompile"}
    done = vknn(*made(command, files), drivers=working(), variables=fault)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("vknn: error: ") and f"{device()}: compiling " in line
    assert line.endswith(": the driver crashed (SIGSEGV); update it, or choose another device")


@pytest.mark.parametrize("way", ["crash", pytest.param("hang", marks=pytest.mark.slow)])
def test_a_job_whose_compiler_does_not_return(way: str, files: Path) -> None:
    """Another process goes on, record by record, as with records that end it."""
    fault = {**faulty("vkCreateComputePipelines", 1, way), "VKNN_DISABLE": "precompile"}
    done = impatient(made("batch", files), fault)
    assert done.returncode == 0 and "errors: 2 ProcessDied" in done.stdout
    how = "crashed (SIGSEGV)" if way == "crash" else f"gave no answer within {SECONDS} s"
    for line in done.stderr.splitlines():
        assert line.startswith(f"vknn: {device()}: compiling ")
        assert line.endswith(f": the driver {how}; another goes on")
    assert len(done.stderr.splitlines()) == 4


@pytest.mark.parametrize("command", ["run", "verify", "bench", "dump", "profile"])
def test_a_submit_that_crashes(command: str, files: Path) -> None:
    fault = {**faulty("vkQueueSubmit", 1, "crash"), "VKNN_DISABLE": "precompile"}
    done = vknn(*made(command, files), drivers=working(), variables=fault)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"{device()}: after compiling " in line
    told = ": most likely its driver crashed (SIGSEGV); update it, or choose another device"
    assert line.endswith(told)


@pytest.mark.parametrize("command", ["bundle", "batch-node", "profile", "batch"])
def test_a_driver_that_crashes_where_devices_are_listed(command: str, files: Path) -> None:
    bad = str(manifest(files, "bad", str(library())))
    given = ["batch-node"] if command == "batch-node" else made(command, files)
    drivers = os.pathsep.join((bad, working()))
    done = vknn(*given, drivers=drivers, variables={"VKNN_BAD_DRIVER": "enumerate:crash"})
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith("the driver crashed (SIGSEGV); `vknn devices` tries each apart")


@pytest.mark.parametrize(
    ("command", "call", "doing"),
    [
        ("batch", "vkCreateDevice", "opening the device"),
        ("profile", "vkCreateComputePipelines", "compiling "),
        pytest.param("tune", "vkCreateDevice", "opening the device", marks=pytest.mark.slow),
        pytest.param("tune", "vkCreateComputePipelines", "compiling ", marks=pytest.mark.slow),
        pytest.param("bundle", "vkCreateComputePipelines", "compiling ", marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_hangs(command: str, call: str, doing: str, files: Path) -> None:
    fault = {**faulty(call, 1, "hang"), "VKNN_DISABLE": "precompile"}
    done = impatient(made(command, files), fault)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    told = f"the driver gave no answer within {SECONDS} s; update it, or choose another device"
    assert f"{device()}: {doing}" in line and line.endswith(told)


def test_what_a_child_writes_is_kept(files: Path) -> None:
    """Pipelines, choices and traces: the next process finds them."""
    cache = {"VKNN_CACHE_DIR": str(files / "cache")}
    for command in ("tune", "profile"):
        done = vknn(*made(command, files), "--json", drivers=working(), variables=cache)
        assert done.returncode == 0 and json.loads(done.stdout), done.stderr
    assert json.loads((files / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert list((files / "cache" / "tuning").glob("*.json"))
    assert list((files / "cache" / "pipelines").glob("*.bin"))


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("command", ["bench", "tune"])
def test_commands_end_when_they_are_told(
    command: str, signal_: signal.Signals, group: bool
) -> None:
    """By a terminal, which tells their children, too, and by others, which do not know of these."""
    program = (
        "import sys, time\n"
        f"from vknn.cli import {command}, main\n"
        "def work(args):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(100)\n"
        f"{command}.run = work\n"
        f"sys.argv = ['vknn', '{command}', 'net.param']\n"
        "sys.exit(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heard,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            (os.killpg if group else os.kill)(process.pid, signal_)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    interrupted = signal_ == signal.SIGINT
    assert said == ("vknn: stopped\n" if interrupted else "")
    assert process.returncode == 128 + signal_
