"""Bisection of planted faults: a pass, a kernel, a feature, a choice, two together, no switch."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device, skip_without_half
from tests.reduction.networks import FAULTY, PLANTS, write_network

import vknn
from vknn.cli.main import main
from vknn.environment import parts
from vknn.errors import VknnError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.reduction import BisectReport, bisect, worker
from vknn.runtime.tuning_database import (
    TuningEntry,
    database_file,
    store,
    tuned_switch,
)
from vknn.session import engine_of

KERNELS, QUIRK = PLANTS / "kernel_fault.py", PLANTS / "known_quirk.py"
#: Seconds in which a switch is to be named, from the command's start to its end; CI, on machines
#: that others load, has twice that.
MINUTE = 60.0 * (2 if os.environ.get("CI") else 1)
pytestmark = pytest.mark.device


def bisected(
    model: Path, plant: str, monkeypatch: pytest.MonkeyPatch, *options: str
) -> BisectReport:
    """The report of ``vknn bisect`` in a process of its own, as plants change vknn."""
    return json.loads(printed(model, plant, monkeypatch, "--json", *options))  # type: ignore[no-any-return]


def printed(model: Path, plant: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> str:
    """What the command prints, within a minute, of a model that fails."""
    monkeypatch.setenv("PLANT", plant)
    layers = PLANTS / "pass_fault.py" if plant == "pass" else KERNELS
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "vknn", "bisect", str(model), "--layers", str(layers), *options],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert time.monotonic() - start < MINUTE
    return done.stdout


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


def test_quirks_of_the_device_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the driver's, and not one of another's."""
    monkeypatch.setattr(worker, "QUIRKS", ())  # afterwards it is as it was
    runpy.run_path(str(QUIRK))
    facts = worker.facts(shared_device())
    report = BisectReport("m", vknn.reduction.Verdict("wrong", ""), facts)
    assert facts["quirks"] == {"slow-int64": ["int64"]}
    assert report.quirk.startswith(f"vknn knows quirks of this driver ({driver()}")
    assert report.quirk.endswith("do not cover this: slow-int64 (switches off int64)")
    assert json.loads(report.to_json())["quirk"] == report.quirk


@pytest.mark.slow
def test_a_quirk_that_vknn_knows_of_the_driver_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ("--layers", str(QUIRK))
    lines = printed(write_network(tmp_path), "pass", monkeypatch, *known).splitlines()
    assert lines[1].startswith("the pass 'fusion'")
    assert lines[2] == "workaround: VKNN_DISABLE=fusion"
    assert lines[3].startswith(f"vknn knows quirks of this driver ({driver()}")
    assert lines[3].endswith("which do not cover this: slow-int64 (switches off int64)")


def driver() -> str:
    return shared_device().snapshot.driver_name


@pytest.mark.host
def test_a_quirk_without_features_is_told_by_its_name() -> None:
    facts = {"device": "D", "driver": "", "quirks": {"late": [], "wide": ["int64", "dot"]}}
    report = BisectReport("m", vknn.reduction.Verdict("wrong", ""), facts)
    assert report.quirk.endswith(
        "(D), which do not cover this: late, wide (switches off int64, dot)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["texel", "fp16"])
def test_a_feature_that_alone_makes_the_difference_is_named(
    feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kernels that use it are wrong, so that no kernel and no pass helps."""
    options = ("--precision", "fp16") if feature == "fp16" else ()
    if feature == "fp16":
        skip_without_half()
    elif shared_device().limits.preferred_access == "storage":
        pytest.skip(f"{shared_device().name} reads no tensors through texel buffers")
    report = bisected(write_network(tmp_path), feature, monkeypatch, *options)
    (switch,) = report["switches"]
    assert (switch["name"], switch["kind"]) == (feature, "feature")
    assert report["workaround"] == f"VKNN_DISABLE={feature}" and report["confirmed"]


@pytest.mark.slow
def test_a_switch_of_googlenet_is_named_in_a_minute(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKNN_VALIDATE", "0")
    path, weights = shared / "benchmark" / "ncnn" / "googlenet.param", tmp_path / "googlenet.bin"
    write_random_weights(path, weights)
    report = bisected(path, "pass", monkeypatch, "--weights", str(weights))
    assert [s["name"] for s in report["switches"]] == ["fusion"] and report["confirmed"]


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
