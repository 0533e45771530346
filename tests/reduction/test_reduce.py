"""Reduction of models with planted faults, and by commands of the user's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.reduction.networks import FAULTY, PLANTS, write_network
from tests.signals import heard

import vknn
from vknn.cli.main import main
from vknn.formats import load
from vknn.formats.layer_files import run_layer_files
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.reduction import reduce

SHELL = "#!/bin/sh\n"


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results say nothing of a device: commands judge, and opening one takes a second."""
    module = sys.modules["vknn.reduction.reduce"]
    monkeypatch.setattr(module, "device_facts", lambda *_: {"device": "none"})


def command(folder: Path, text: str) -> str:
    """A shell script of this text, which ends with its own exit code."""
    path = folder / "check.sh"
    path.write_text(SHELL + text)
    path.chmod(0o755)
    return str(path)


def holds(operator: str) -> str:
    """Text of a script that exits with 1 where a case has this operator."""
    return f"""! grep -q '"type": "{operator}"' "$1/graph.json"\n"""


@pytest.mark.device
@pytest.mark.parametrize(
    ("mode", "elements"),
    [
        (1, 12),  # six channels of a pixel
        pytest.param(2, 18, marks=pytest.mark.slow),  # nine columns
        (3, 2),
        pytest.param(4, 2, marks=pytest.mark.slow),
    ],
)
def test_a_wrong_kernel_is_named_and_alone(mode: int, elements: int, tmp_path: Path) -> None:
    model, small = write_network(tmp_path, mode), tmp_path / "small"
    report = reduce(model, output=small, layers=[FAULTY])
    assert not report.ok and report.failure.kind == "wrong"
    assert report.failure.layers == "middle"
    assert report.operators == (("middle", "Faulty"),)
    assert report.after.elements <= elements < 0.01 * report.before.elements
    assert sum(p.stat().st_size for p in small.iterdir()) < 20_000
    again = vknn.verify(small)
    assert not again.ok and again.first_failure is not None
    assert again.first_failure.layer == "middle"
    text = (small / "README.md").read_text()
    assert "llvmpipe" in text or again.device in text
    assert "vknn verify . --layers ./faulty.py" in text


@pytest.mark.device
def test_a_model_that_is_right_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, small = write_network(tmp_path), tmp_path / "small"
    assert main(["reduce", str(model), "-o", str(small)]) == 0
    assert capsys.readouterr().out.startswith("nothing fails: all 7 operators agree")
    assert not small.exists()


@pytest.mark.device
@pytest.mark.parametrize(
    ("mode", "kind", "detail"),
    [
        (5, "died", "SIGSEGV"),
        pytest.param(7, "error", "DeviceLostError", marks=pytest.mark.slow),
        pytest.param(6, "hung", "", marks=pytest.mark.slow),
    ],
)
def test_crashes_hangs_and_lost_devices_are_failures_too(
    mode: int, kind: str, detail: str, tmp_path: Path
) -> None:
    report = reduce(
        write_network(tmp_path, mode), output=tmp_path / "small", layers=[FAULTY], timeout=4.0
    )
    assert (report.failure.kind, report.failure.detail) == (kind, detail)
    assert report.operators == (("middle", "Faulty"),)
    assert report.after.elements == 2
    run_layer_files([FAULTY])
    assert load(tmp_path / "small").recorded


@pytest.mark.device
@pytest.mark.slow
def test_a_wrong_pass_comes_down_to_what_it_joins(tmp_path: Path) -> None:
    layers = [PLANTS / "pass_fault.py"]
    code = (
        "from vknn.reduction import reduce\n"
        f"r = reduce({str(write_network(tmp_path))!r}, output={str(tmp_path / 'small')!r}, "
        f"layers={[str(p) for p in layers]!r})\n"
        "assert r.failure.kind == 'rewritten', r\n"
        "assert len(r.operators) <= 2 and r.operators[-1][1] == 'Relu', r\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_command_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, small = write_network(tmp_path), tmp_path / "small"
    check = command(tmp_path, holds("MaxPool"))
    assert main(["reduce", str(model), "--check", check, "-o", str(small), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [op["op"] for op in report["operators"]] == ["MaxPool"]
    assert report["failure"]["kind"] == "exit" and report["command"] == f"{check} {small}"
    assert report["after"]["elements"] <= 2
    with vknn.Session(small, device="numpy") as session:
        assert session.run({}).popitem()[1].size == 1


@pytest.mark.usefixtures("no_device")
def test_a_command_that_needs_two_nodes_keeps_both(tmp_path: Path) -> None:
    check = command(tmp_path, holds("MaxPool").replace("! ", "! { ", 1).rstrip() + " && "
                    + holds("Softmax")[2:].rstrip() + "; }\n")  # fmt: skip
    report = reduce(write_network(tmp_path), output=tmp_path / "small", check=check)
    assert [op for _, op in report.operators] == ["MaxPool", "Softmax"]


def test_a_command_to_which_nothing_is_wrong(tmp_path: Path) -> None:
    report = reduce(write_network(tmp_path), output=tmp_path / "small", check="true")
    assert report.ok and "nothing fails" in report.summary()


@pytest.mark.usefixtures("no_device")
def test_a_command_that_never_ends_is_a_failure(tmp_path: Path) -> None:
    start = time.monotonic()
    check = command(tmp_path, "sleep 1000\n")
    report = reduce(write_network(tmp_path), output=tmp_path / "small", check=check, timeout=0.1)
    assert report.failure.kind == "hung" and len(report.operators) == 1
    assert time.monotonic() - start < 60


def test_commands_that_cannot_be_run_are_told(tmp_path: Path) -> None:
    model = write_network(tmp_path)
    for check in ("/no/such/command", command(tmp_path, "no_such_command\n"), "'", " "):
        with pytest.raises(vknn.VknnError, match="--check"):
            reduce(model, output=tmp_path / "small", check=check)
    assert not (tmp_path / "small").exists()


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    model = write_network(tmp_path)
    with pytest.raises(vknn.VknnError, match="holds other files"):
        reduce(model, output=tmp_path, check="false")
    with pytest.raises(vknn.VknnError, match="no folder"):
        reduce(model, output=model, check="false")
    with pytest.raises(vknn.VknnError, match="above 0"):
        reduce(model, output=tmp_path / "small", timeout=0)


@pytest.mark.usefixtures("no_device")
def test_the_best_so_far_is_the_result_when_time_is_up(tmp_path: Path) -> None:
    check = command(tmp_path, f"sleep 0.5; {holds('Softmax')}")
    report = reduce(write_network(tmp_path), output=tmp_path / "small", check=check, limit=1.0)
    assert report.stopped == "out of time" and report.trials < 12
    assert load(tmp_path / "small").layer_types
    assert "out of time" in (tmp_path / "small" / "README.md").read_text()


def test_ctrl_c_leaves_the_best_so_far(tmp_path: Path) -> None:
    check = command(tmp_path, f"echo >> {tmp_path}/tries; sleep 0.1; {holds('Softmax')}")
    small = tmp_path / "small"
    arguments = ["reduce", str(write_network(tmp_path)), "--check", check, "-o", str(small)]
    process = subprocess.Popen(
        [sys.executable, "-m", "vknn", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heard,
    )
    tries = tmp_path / "tries"
    while not tries.exists() or tries.stat().st_size < 4:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: this is the best so far" in output
    assert "Softmax" in load(small).layer_types
    assert "interrupted" in (small / "README.md").read_text()


@pytest.mark.usefixtures("no_device")
def test_a_result_is_reduced_again(tmp_path: Path) -> None:
    check = command(tmp_path, holds("MaxPool"))
    small = tmp_path / "small"
    reduce(write_network(tmp_path), output=small, check=check)
    report = reduce(small, output=small, check=check)
    assert report.before.elements == report.after.elements == 2


@pytest.mark.usefixtures("no_device")
def test_inputs_of_the_users_are_what_is_recorded(tmp_path: Path) -> None:
    model = write_network(tmp_path)
    np.savez(tmp_path / "bad.npz", data=np.full((3, 17, 18), 7, np.float32))
    check = command(tmp_path, """! grep -q '"name": "data"' "$1/graph.json"\n""")
    code = main(
        ["reduce", str(model), "--input", str(tmp_path / "bad.npz"), "--check", check,
         "-o", str(tmp_path / "small"), "--limit", "0.001"]
    )  # fmt: skip
    assert code == 1
    assert (load(tmp_path / "small").recorded["data"] == 7).all()


@pytest.mark.device
@pytest.mark.slow
def test_one_node_of_googlenet_comes_down_to_one_in_three_minutes(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared / "benchmark" / "ncnn" / "googlenet.param"
    weights = tmp_path / "googlenet.bin"
    write_random_weights(path, weights)
    monkeypatch.setenv("PLANT", "layer:inception_4c/3x3")
    code = (
        "from vknn.reduction import reduce\n"
        f"r = reduce({str(path)!r}, weights={str(weights)!r}, output={str(tmp_path / 'small')!r}, "
        f"layers=[{str(PLANTS / 'kernel_fault.py')!r}])\n"
        "assert [n for n, _ in r.operators] == ['inception_4c/3x3'], r\n"
        "assert r.after.elements < 0.01 * r.before.elements and r.seconds < 180, r\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=280)


@pytest.mark.device
def test_a_device_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    with pytest.raises(vknn.DeviceError, match="cannot be opened"):
        reduce(write_network(tmp_path), output=tmp_path / "small", device="vulkan:99")
    assert not (tmp_path / "small").exists()
