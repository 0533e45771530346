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
import atexit, json, os, sys, time
for job in json.loads(sys.argv[1]):
    if job["name"] == "bad":
        BAD
    print(json.dumps({"name": job["name"]}), flush=True)
"""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, code: str) -> list[str]:
    """Jobs as the fake children were given them, which do for "bad" what ``code`` says."""
    found: list[str] = []

    def begin(device: str, program: list[str], said: Any, **more: str) -> Any:
        found.append(program[-1])
        command = [sys.executable, "-c", CHILD.replace("BAD", code), program[-1]]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)

    monkeypatch.setattr(jobs, "begin", begin)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("os.abort()", "navi21: bad: the process was ended by SIGABRT: no message"),
        ("sys.exit('no memory')", "navi21: bad: the process ended with 1: no memory"),
        ("time.sleep(60)", "navi21: bad: the process took more than 3 s"),
    ],
)
def test_one_line_and_the_rest_goes_on(line: str, begun: list[str]) -> None:
    assert failure(JOBS) == line
    assert len(begun) == 2 and "bad" not in begun[1] and '"c"' in begun[1]
    assert [found["name"] for found in jobs.do("navi21", JOBS[::2], 3)] == ["a", "c"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("atexit.register(os.abort)", "behind the last one: the process was ended by SIGABRT"),
        ("print('MESA: bad', file=sys.stderr)", "the driver says: MESA: bad"),
        ("print('Unknown drm_i915_query_item id=5', file=sys.stderr)", None),
    ],
)
def test_crashes_at_the_end_and_what_the_driver_says(line: str | None, begun: list[str]) -> None:
    if line is None:
        assert len(jobs.do("navi21", JOBS, 3)) == 3
    else:
        assert failure(JOBS).startswith(f"navi21: {line}")
    assert len(begun) == 1


def failure(of: list[dict[str, Any]]) -> str:
    with pytest.raises(pytest.fail.Exception) as raised:
        jobs.do("navi21", of, 3)
    return str(raised.value)


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
