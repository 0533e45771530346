"""Bisection of planted faults: a pass, a kernel, a tuned choice, two together, no switch at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.reduction.networks import FAULTY, PLANTS, write_network

import vknn
from vknn.cli.main import main
from vknn.environment import parts
from vknn.errors import VknnError
from vknn.reduction import BisectReport, bisect
from vknn.runtime.tuning_database import (
    TuningEntry,
    database_file,
    store,
    tuned_switch,
)
from vknn.session import engine_of

KERNELS = PLANTS / "kernel_fault.py"
pytestmark = pytest.mark.device


def bisected(model: Path, plant: str, monkeypatch: pytest.MonkeyPatch) -> BisectReport:
    """The report of ``vknn bisect`` in a process of its own, as plants change vknn."""
    monkeypatch.setenv("PLANT", plant)
    layers = PLANTS / "pass_fault.py" if plant == "pass" else KERNELS
    done = subprocess.run(
        [sys.executable, "-m", "vknn", "bisect", str(model), "--layers", str(layers), "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def labels(model: Path) -> list[str]:
    """Labels of the kernels of a network, in order."""
    with vknn.Session(model) as session:
        (plan,) = engine_of(session).program({"data": np.zeros((3, 17, 18), np.float32)}).plans
        return [step.label for step in plan.dispatches]


def test_a_wrong_pass_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = bisected(write_network(tmp_path), "pass", monkeypatch)
    assert [s["name"] for s in report["switches"]] == ["fusion"]
    assert report["switches"][0]["kind"] == "pass" and report["confirmed"]
    assert report["workaround"] == "VKNN_DISABLE=fusion"
    assert "no quirk of this driver" in report["quirk"]


@pytest.mark.slow
def test_a_wrong_kernel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_network(tmp_path)
    label = next(text for text in labels(model) if text.startswith("Conv "))
    report = bisected(model, f"kernel:{label}", monkeypatch)
    name = f"kernel:{label.replace(' ', '/')}"
    assert [s["name"] for s in report["switches"]] == [name]
    assert report["confirmed"] and report["runs"] < 14
    monkeypatch.setenv("VKNN_DISABLE", name)
    assert label not in labels(model)


@pytest.mark.slow
def test_a_tuned_choice_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vknn.lowering import candidates
    from vknn.lowering.choose.candidates import make_problem
    from vknn.lowering.choose.tuned_choices import choice_key, form_of, problem_key

    model = write_network(tmp_path)
    used = labels(model)
    with vknn.Session(model) as session:
        assert session.device is not None
        options, limits = engine_of(session).target.options, session.device.limits
        graph = engine_of(session).program({"data": np.zeros((3, 17, 18), np.float32)}).graph
        node = next(n for n in graph.nodes if n.origin.name.startswith("conv2"))
        chosen = next(
            c
            for c in candidates(node, limits, options)
            if f"Conv {c.name}" not in used and c.name.startswith("tile")
        )
        key = choice_key(problem_key(make_problem(node, limits, options)), form_of(chosen))
        path = database_file(Path(vknn.environment.read().cache_path()), session.device.snapshot)
    store(path, {key: TuningEntry(chosen.name, 1.0, {chosen.name: 1.0})})
    assert f"Conv {chosen.name}" in labels(model)
    report = bisected(model, f"kernel:Conv {chosen.name}", monkeypatch)
    (switch,) = report["switches"]
    assert (switch["name"], switch["kind"]) == (tuned_switch(key), "tuned choice")
    assert chosen.name in switch["meaning"]
    monkeypatch.setenv("VKNN_DISABLE", switch["name"])
    assert f"Conv {chosen.name}" not in labels(model)


@pytest.mark.slow
def test_two_that_help_together_only_are_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = bisected(write_network(tmp_path), "unless:fusion,shuffle", monkeypatch)
    assert {s["name"] for s in report["switches"]} == {"fusion", "shuffle"}
    assert report["workaround"] == "VKNN_DISABLE=shuffle,fusion"
    text = BisectReport(
        "m",
        vknn.reduction.Verdict("wrong", ""),
        switches=tuple(vknn.reduction.PartSwitch(**s) for s in report["switches"]),
    ).summary()
    assert "no single switch makes the difference" in text


@pytest.mark.slow
def test_where_no_switch_helps_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_network(tmp_path, 1)
    report = bisect(model, layers=[FAULTY])
    assert report.switches and report.switches[0].name == "kernel:Faulty/shader"
    check = tmp_path / "check.sh"
    check.write_text("#!/bin/sh\nexit 3\n")
    check.chmod(0o755)
    assert main(["bisect", str(write_network(tmp_path)), "--check", str(check)]) == 1
    output = capsys.readouterr().out
    assert "fails: exit code 3" in output
    assert "no switch makes the difference, not even all of them together" in output


@pytest.mark.slow
def test_kernels_that_are_all_wrong_leave_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = bisected(write_network(tmp_path), "always", monkeypatch)
    assert report["switches"] == [] and report["workaround"] == "VKNN_DISABLE=kernel:Conv"


def test_a_model_that_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", str(write_network(tmp_path))]) == 0
    assert capsys.readouterr().out.startswith("nothing fails: all 7 operators agree")


@pytest.mark.host
def test_a_command_is_given_the_switches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = tmp_path / "check.sh"
    check.write_text('#!/bin/sh\ncase ",$VKNN_DISABLE," in *,batch-norm,*) exit 0;; esac\nexit 1\n')
    check.chmod(0o755)
    model = write_network(tmp_path)
    assert main(["bisect", str(model), "--check", str(check), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [s["name"] for s in report["switches"]] == ["batch-norm"]
    assert report["runs"] < 12


@pytest.mark.host
def test_a_failure_that_comes_and_goes_is_called_so(tmp_path: Path) -> None:
    check = tmp_path / "check.sh"
    check.write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/seen ] && exit 0\ntouch {tmp_path}/seen\nexit 1\n"
    )
    check.chmod(0o755)
    report = bisect(write_network(tmp_path), check=str(check))
    assert not report.ok and not report.steady
    assert "does not fail each time" in report.summary()


@pytest.mark.host
def test_names_of_single_kernels_and_choices() -> None:
    names = parts("kernel:Conv/winograd43,tuned:0123abcd,fusion", "--disable")
    assert names == {"kernel:Conv/winograd43", "tuned:0123abcd", "fusion"}
    with pytest.raises(VknnError, match=r"kernel:\.\.\."):
        parts("kernels:Conv", "--disable")


@pytest.mark.host
def test_no_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VknnError, match="above 0"):
        bisect(write_network(tmp_path), timeout=-1)
