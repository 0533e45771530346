"""Two jobs in one folder: the second is refused, on this machine and on others."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
from tests.scale.jobs import by_id, command, job, table, vectors, write_net

from vknn import scale
from vknn.errors import VknnError
from vknn.scale import claim
from vknn.scale.folder import Folder
from vknn.scale.local import LocalRun
from vknn.scale.processes import start_of, this_machine


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Source, model and output of a job."""
    return table(tmp_path / "t.parquet", vectors(50)), write_net(tmp_path), tmp_path / "out"


def write_claim(output: Path, seconds: float, **other: Any) -> Path:
    """Writes the claim of a process of which nothing was heard for so long."""
    (output / "_vknn").mkdir(parents=True, exist_ok=True)
    path = output / "_vknn" / "claim-00.json"
    path.write_text(json.dumps({"host": "second", "machine": "m", "pid": 7, "start": "1", **other}))
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def claims(output: Path) -> list[Path]:
    return list((output / "_vknn").glob("claim-*.json"))


WAITS = "process 7 on second worked in this folder 4. s ago"


def test_a_process_of_another_machine_that_lives(given: tuple[Path, Path, Path]) -> None:
    """It is waited for whether it is heard of, and it keeps the folder then."""
    path = write_claim(given[2], 40)
    heard = threading.Timer(2.0, lambda: write_claim(given[2], 0, beats=2))
    heard.start()
    with (
        pytest.raises(VknnError, match="folder now: process 7 on second"),
        pytest.warns(RuntimeWarning, match=WAITS),
    ):
        job(*given, id="id")
    heard.join()
    assert claims(given[2]) == [path]


def test_a_claim_that_is_removed(given: tuple[Path, Path, Path]) -> None:
    path = write_claim(given[2], 40)
    removal = threading.Timer(2.0, path.unlink)
    removal.start()
    with pytest.warns(RuntimeWarning, match=WAITS) as told:
        assert job(*given, id="id").rows == 50
    removal.join()
    assert str(path) in str(told[0].message)
    assert not claims(given[2])


def test_a_process_of_another_machine_that_is_silent(
    given: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "STALE_SECONDS", 1.5)
    write_claim(given[2], 0)
    with pytest.warns(RuntimeWarning, match="nothing is heard of it for . s more"):
        assert job(*given, id="id").rows == 50
    assert not claims(given[2])


def test_a_machine_that_nothing_was_heard_of(given: tuple[Path, Path, Path]) -> None:
    write_claim(given[2], claim.STALE_SECONDS + 10)
    assert job(*given, id="id").rows == 50
    assert not claims(given[2])


@pytest.mark.skipif(not this_machine(), reason="needs /proc")
@pytest.mark.parametrize("start, is_alive", [("now", True), ("1", False)])
def test_a_process_of_this_machine(
    given: tuple[Path, Path, Path], start: str, is_alive: bool
) -> None:
    """Whether it lives is seen at once, and a number that another process has now misleads none."""
    start = start_of(os.getpid()) if start == "now" else start
    write_claim(given[2], 0, machine=this_machine(), pid=os.getpid(), start=start)
    if is_alive:
        with pytest.raises(VknnError, match=f"folder now: process {os.getpid()} on "):
            job(*given, id="id")
    else:
        assert job(*given, id="id").rows == 50


def test_a_process_that_was_killed(given: tuple[Path, Path, Path]) -> None:
    """It leaves its claim, which stops nobody."""
    words = [given[1], given[0], "--output", given[2], "--id", "id", "--device", "numpy"]
    process = subprocess.Popen([*command(*words), "--engine", "local"], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not claims(given[2]) and time.monotonic() < until:
        time.sleep(0.005)
    process.kill()
    process.wait()
    time.sleep(0.5)  # its child ends with it
    assert job(*given, id="id").rows == 50
    assert len(by_id(given[2])) == 50 and not claims(given[2])


@pytest.fixture
def taken(given: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose claim another one removes, and which soon sees that."""
    monkeypatch.setattr(claim, "BEAT_SECONDS", 0.05)
    run = Folder.sweep

    def sweep(self: Folder) -> None:
        run(self)
        for path in claims(given[2]):
            os.remove(path)
        until = time.monotonic() + 30
        while not self.lost and time.monotonic() < until:
            time.sleep(0.01)

    monkeypatch.setattr(Folder, "sweep", sweep)


def test_a_folder_that_another_job_took(given: tuple[Path, Path, Path], taken: None) -> None:
    with pytest.raises(VknnError, match="another job took this folder"):
        job(*given, id="id")
    assert not list(given[2].glob("*.parquet"))


@pytest.mark.device
@pytest.mark.slow
def test_a_folder_that_another_job_took_from_ray(
    ray: Any, job: dict[str, Any], taken: None
) -> None:
    with pytest.raises(scale.JobError, match="another job took this folder"):
        scale.run(**job)


def test_signs_of_life(given: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "BEAT_SECONDS", 0.05)
    finish, heard = LocalRun._finish, []

    def slow(self: LocalRun, *given_: Any) -> None:
        (path,) = claims(given[2])
        heard.append(path.stat().st_mtime_ns)
        time.sleep(0.4)
        finish(self, *given_)

    monkeypatch.setattr(LocalRun, "_finish", slow)
    assert job(*given, id="id", batch_size=25).rows == 50
    assert heard[1] > heard[0]
