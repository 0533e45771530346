"""Null devices whose driver or shim is missing, crashes or hangs: one line, the rest goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.null_devices import jobs

JOBS = [{"name": name, "arithmetic": "fp32"} for name in ("a", "bad", "c")]
#: In place of tests.null_devices.child: does what a job's name says.
CHILD = """
import json, os, sys, time
for job in json.loads(sys.argv[1]):
    if job["name"] == "bad":
        {bad}
    print(json.dumps({{"name": job["name"]}}), flush=True)
if job["name"] == "release":
    os.abort()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ("os.abort()", "navi21: bad: the process was ended by SIGABRT: no message"),
        ("sys.exit('no memory')", "navi21: bad: the process ended with 1: no memory"),
        ("time.sleep(60)", "navi21: bad: the process took more than 3 s"),
    ],
)
def test_one_line_and_the_rest_goes_on(
    bad: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def begin(device: str, program: list[str], said: Any, **more: str) -> Any:
        begun.append(program[-1])
        command = [sys.executable, "-c", CHILD.format(bad=bad), program[-1]]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)

    monkeypatch.setattr(jobs, "begin", begin)
    with pytest.raises(pytest.fail.Exception) as failure:
        jobs.do("navi21", JOBS, 3)
    assert str(failure.value) == line
    assert len(begun) == 2 and "bad" not in begun[1] and '"c"' in begun[1]
    assert [found["name"] for found in jobs.do("navi21", JOBS[::2], 3)] == ["a", "c"]
    released = [JOBS[0], {"name": "release", "arithmetic": "fp32"}]
    with pytest.raises(pytest.fail.Exception) as failure:
        jobs.do("navi21", released, 3)
    assert "navi21: behind the last one: the process was ended by SIGABRT" in str(failure.value)


def test_a_shim_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(jobs.ROOT / "tools"))
    import null_drivers

    monkeypatch.setattr(null_drivers, "_is_ready", lambda: True)
    monkeypatch.setattr(null_drivers, "LIBRARIES", tmp_path)
    message = "navi21: .*libamdgpu_noop_drm_shim.so is gone: delete .*, it is fetched again"
    with pytest.raises(null_drivers.Incomplete, match=message):
        null_drivers.set_up("navi21")
    with pytest.raises(pytest.fail.Exception, match=message):
        jobs.start("navi21", ["-c", "pass"])
