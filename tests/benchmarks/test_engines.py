"""Processes on null devices whose compiler crashes or hangs: a line each, the rest goes on."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = [{"name": name} for name in ("a", "bad", "c")]
#: In place of counting.child: does what a network's name says.
CHILD = """
import json, os, sys, time
for network in json.loads(sys.argv[1])["networks"]:
    if network["name"] == "bad":
        {bad}
    print(json.dumps({{"name": network["name"], "seconds": [1.0]}}), flush=True)
"""


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from counting import engines

    return engines


@pytest.mark.long
@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ("os.abort()", "ended by SIGABRT: no message"),
        ("sys.exit('no memory')", "exit code 1: no memory"),
        ("print('{', flush=True); time.sleep(60)", "no end after {} s"),
    ],
)
def test_one_line_and_the_rest_goes_on(
    bad: str, line: str, engines: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def command(device: str, program: list[str]) -> list[str]:
        return [sys.executable, "-c", CHILD.format(bad=bad), program[-1]]

    monkeypatch.setattr(engines, "SECONDS", 2)
    monkeypatch.setattr(engines.null_drivers, "command", command)
    monkeypatch.setattr(engines, "environment", lambda *of: {})
    place = engines.Workshop("navi21", tmp_path / "layer", tmp_path)
    answers = place._run(engines.Engine("vknn", "fp16"), NETWORKS, None, 3, {})
    found = {answer["name"]: answer.get("error", answer.get("seconds")) for answer in answers}
    assert found == {"a": [1.0], "bad": line.format(6), "c": [1.0]}


def test_how_a_process_ended(engines: Any) -> None:
    done = subprocess.CompletedProcess([], -signal.SIGSEGV, "", "first\nlast\n")
    assert engines.ending(done) == "ended by SIGSEGV: last"


@pytest.mark.parametrize("program", ["modelled", "choices"])
def test_a_device_that_cannot_be_had(
    program: str, engines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A line with its name, and exit code 2 behind all others."""
    module = __import__(program)
    begun = []

    def gone(args: Any, device: str) -> Any:
        begun.append(device)
        raise module.null_drivers.Unavailable(f"no mirror for {device}")

    monkeypatch.setattr(module, "_document", gone)
    monkeypatch.setattr(sys, "argv", [program, "navi21", "a740", "--folder", str(tmp_path)])
    assert module.main() == 2
    assert begun == ["navi21", "a740"]
    assert capsys.readouterr().err.splitlines() == [
        f"error: {device}: no mirror for {device}" for device in begun
    ]


def test_host_times_that_are_kept(
    engines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts without timed runs leave the host times that are kept where they are."""
    import modelled
    from counting import layer

    def counted(host: int | None) -> dict[str, Any]:
        sides = {"vknn": {"host_us": host, "dispatches": 3}, "ncnn": {"error": "ended"}}
        return {"networks": {"a": sides, "new": dict(sides)}}

    monkeypatch.setattr(modelled.null_drivers, "set_up", lambda device: None)
    monkeypatch.setattr(layer, "built", lambda cache: tmp_path)
    for runs, host in ((2, 24), (0, None)):
        monkeypatch.setattr(modelled, "compared", lambda *_, host=host: counted(host))
        args = argparse.Namespace(
            read=False, only=None, save=True, runs=runs, results=tmp_path, precision="fp16"
        )
        modelled._document(args, "navi21")
    path = tmp_path / "navi21" / "compared-fp16.json"
    found = json.loads(path.read_text(encoding="utf-8"))["networks"]["a"]
    assert found == {"vknn": {"host_us": 24, "dispatches": 3}, "ncnn": {"error": "ended"}}
