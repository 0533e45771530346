"""Jobs whose process ends: by a record, by SIGKILL, by Ctrl-C, by a full disk; and their way on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.jobs import (
    PROBE,
    answers,
    batch,
    by_id,
    command,
    document,
    job,
    same,
    table,
    vectors,
    write_net,
)
from tests.signals import heard

import vknn
from vknn.scale.folder import Folder
from vknn.scale.killed import Killed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
LAYERS = Path(__file__).with_name("probe.py")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_net(tmp_path, PROBE)


def words(net: Path, source: Path, output: Path, *more: object) -> list[object]:
    return [net, source, "--output", output, "--id", "id", "--layers", LAYERS, *more]


def probing(*entries: str) -> dict[str, str]:
    return {"VKNN_TEST_PROBE": ",".join(entries)}


def check_doubled(folder: Path, values: np.ndarray, but: tuple[int, ...] = ()) -> None:
    rows = by_id(folder)
    assert len(rows) == len(values)
    for number, value in enumerate(values):
        row = rows[f"r{number}"]
        if number in but:
            assert row["error"] is not None and row["out"] is None
        else:
            assert row["error"] is None, row
            np.testing.assert_array_equal(row["out"], 2 * value)


def test_a_record_that_kills_the_process(net: Path, tmp_path: Path) -> None:
    values = vectors(80)
    source = table(tmp_path / "t.parquet", values)
    done = batch(*words(net, source, tmp_path / "out"), environment=probing("40:kill"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the process was ended by SIGKILL; another goes on") == 3
    check_doubled(tmp_path / "out", values, but=(40,))
    error = by_id(tmp_path / "out")["r40"]["error"]
    assert error == {
        "type": "ProcessDied",
        "message": "the process that computed it on numpy ended 2 times (SIGKILL)",
        "attempts": 2,
    }
    told = document(tmp_path / "out")["report"]
    assert told["errors"] == {"ProcessDied": 1}
    assert told["notes"] == [
        "3 processes were ended; new rows, times and rates are those of the last one"
    ]
    assert not Folder(tmp_path / "out").running(), "no note is left"
    again = batch(*words(net, source, tmp_path / "out"), environment=probing("40:kill"))
    assert again.returncode == 0 and "0 of them now" in again.stdout


def test_the_first_and_others_that_kill(net: Path, tmp_path: Path) -> None:
    """The first one is computed before all others, to learn the outputs' shapes."""
    values = vectors(12)
    source = table(tmp_path / "t.parquet", values)
    kills = probing("0:kill", "1:kill", "11:kill")
    done = batch(*words(net, source, tmp_path / "out", "--batch-size", 4), environment=kills)
    assert done.returncode == 0, done.stderr
    check_doubled(tmp_path / "out", values, but=(0, 1, 11))


@pytest.mark.device
def test_a_device_at_which_three_records_kill(net: Path, tmp_path: Path) -> None:
    """It is not used any more, not by the next command either; another one goes on."""
    values = vectors(30)
    source = table(tmp_path / "t.parquet", values)
    given = words(net, source, tmp_path / "out", "--batch-size", 4)
    kills = probing("3:kill", "9:kill", "20:kill")
    done = batch(*given, "--json", device="vulkan", environment=kills)
    assert done.returncode == 1
    assert "processes ended at 3 different records on it, the last of them 'r3', 'r9', 'r20'" in (
        done.stderr
    )
    (device,) = json.loads(done.stdout.splitlines()[-1])["devices"].values()
    assert device["retired"] == "processes ended at 3 different records"
    again = batch(*given, device="vulkan")
    assert again.returncode == 1 and "is not used any more" in again.stderr
    last = batch(*given)
    assert last.returncode == 0, last.stderr
    check_doubled(tmp_path / "out", values, but=(3, 9))
    assert "ended 2 times (SIGKILL)" in by_id(tmp_path / "out")["r3"]["error"]["message"]
    assert not Folder(tmp_path / "out").running(), "no note is left"


@pytest.mark.slow
def test_records_that_all_kill(net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(2))
    done = batch(*words(net, source, tmp_path / "out"), environment=probing("*:kill"))
    assert done.returncode == 0, done.stderr
    assert [row["error"]["type"] for row in answers(tmp_path / "out")] == ["ProcessDied"] * 2


def test_a_process_that_was_ended_once(net: Path, tmp_path: Path) -> None:
    """Nobody is blamed: all records are computed."""
    values = vectors(40)
    source = table(tmp_path / "t.parquet", values)
    once = probing(f"33:kill-once={tmp_path / 'killed'}")
    done = batch(*words(net, source, tmp_path / "out"), environment=once)
    assert done.returncode == 0 and done.stderr.count("another goes on") == 1
    check_doubled(tmp_path / "out", values)


def test_a_process_that_dies_before_it_computes(net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(3))
    layers = tmp_path / "deadly.py"
    layers.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    given = words(net, source, tmp_path / "out")
    given[given.index(LAYERS)] = layers
    for _ in range(2):
        done = batch(*given)
        assert done.returncode == 2
        assert "ended by SIGKILL before it computed anything" in done.stderr
    assert answers(tmp_path / "out") == []


@pytest.mark.slow
def test_deaths_at_the_start_behind_one_at_a_record(net: Path, tmp_path: Path) -> None:
    """The note of what was computed is an older one then: the job must not go round for ever."""
    source = table(tmp_path / "t.parquet", vectors(3))
    layers = tmp_path / "twice.py"
    layers.write_text(
        f"import os, pathlib, runpy, signal\nonce = pathlib.Path({str(tmp_path / 'once')!r})\n"
        "if once.exists(): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"runpy.run_path({str(LAYERS)!r})\n"
    )
    given = words(net, source, tmp_path / "out")
    given[given.index(LAYERS)] = layers
    done = batch(*given, environment=probing(f"1:kill-once={tmp_path / 'once'}"))
    assert done.returncode == 2
    assert done.stderr.count("another goes on") == 1
    assert "before it computed anything" in done.stderr


@pytest.mark.parametrize(
    ("device", "named"),
    [("numpy", r"net\.param"), pytest.param("vulkan", r"\S+ \([^:]+\)", marks=pytest.mark.device)],
)
def test_a_deadly_record_without_an_id(device: str, named: str, net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(40))
    given = [word for word in words(net, source, tmp_path / "out") if word not in ("--id", "id")]
    done = batch(*given, device=device, environment=probing("35:kill"))
    assert done.returncode == 2 and "--id names a column" in done.stderr
    assert re.search(f"{named}: the process was ended by SIGKILL before", done.stderr)
    assert answers(tmp_path / "out") == []


def test_records_that_fail(net: Path, tmp_path: Path) -> None:
    values = vectors(40)
    source = table(tmp_path / "t.parquet", values)
    done = batch(*words(net, source, tmp_path / "out"), environment=probing("0:fail", "20:fail"))
    assert done.returncode == 0, done.stderr
    check_doubled(tmp_path / "out", values, but=(0, 20))
    assert "the probe fails" in by_id(tmp_path / "out")["r20"]["error"]["message"]


def started(given: list[object], probe: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command(*given), "--device", "numpy", "--engine", "local"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **probe},
        start_new_session=True, preexec_fn=heard,
    )  # fmt: skip


def wait_for(what: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """What a function gives, once it gives something."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if found := what():
            return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def under_way(output: Path) -> bool:
    """Whether a batch behind the first is being computed."""
    path = output / "_vknn" / "running.json"
    now = json.loads(path.read_text())["now"] if path.exists() else []
    return bool(now) and int(now[0][1:]) > 8


def child_of(process: subprocess.Popen[str]) -> int:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(path.read_text(encoding="utf-8").split()[0])


SLOW = probing("*:sleep=0.02")


@pytest.mark.parametrize(
    "how",
    [
        "interrupt",
        "interrupt-parent",
        "terminate",
        "terminate-all",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("kill-parent", "kill-child")),
    ],
)
def test_ended_in_the_middle(how: str, net: Path, tmp_path: Path) -> None:
    """Then run again: every id once, and all answers as those of an undisturbed run."""
    if "interrupt" not in how and not Path("/proc/self/task").is_dir():
        pytest.skip("needs /proc")
    values = vectors(60)
    source = table(tmp_path / "t.parquet", values)
    given = words(net, source, tmp_path / "out", "--batch-size", 4)
    process = started(given, SLOW)
    wait_for(lambda: under_way(tmp_path / "out"), process)
    if how == "interrupt":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    elif how == "interrupt-parent":
        process.send_signal(signal.SIGINT)  # as programs do
    elif how == "kill-child":
        os.kill(child_of(process), signal.SIGKILL)
    elif how == "terminate":
        process.send_signal(signal.SIGTERM)  # as schedulers do
    elif how == "terminate-all":
        os.killpg(process.pid, signal.SIGTERM)
    else:
        child = child_of(process)
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    if how == "kill-child":
        assert process.returncode == 0 and "another goes on" in errors
    elif how != "kill-parent":
        assert process.returncode == (130 if "interrupt" in how else 143), errors
        assert errors.endswith("vknn: stopped\n")
        count = len(by_id(tmp_path / "out"))
        assert 4 <= count < 60, "what was computed is written"
        assert document(tmp_path / "out")["report"]["rows"] == count
    else:
        end = time.monotonic() + 10
        while Path(f"/proc/{child}").exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert not Path(f"/proc/{child}/cmdline").exists(), "the child ended with its parent"
    again = batch(*given)
    assert again.returncode == 0, again.stderr
    check_doubled(tmp_path / "out", values)
    batch(*words(net, source, tmp_path / "undisturbed"))
    assert same(tmp_path / "out", tmp_path / "undisturbed")


@pytest.mark.parametrize("number, pause", [(signal.SIGINT, 0.2), (signal.SIGTERM, 1.2)])
def test_a_second_signal_leaves_at_once(
    number: signal.Signals, pause: float, net: Path, tmp_path: Path
) -> None:
    """SIGTERM that comes twice within a second is one: `timeout` sends it so."""
    source = table(tmp_path / "t.parquet", vectors(60))
    process = started(words(net, source, tmp_path / "out"), probing("*:sleep=0.02", "9:sleep=60"))
    wait_for(lambda: (tmp_path / "out" / "_vknn" / "running.json").exists(), process)
    time.sleep(1.0)  # in the long sleep now, which ends only with the process
    begin = time.monotonic()
    while process.poll() is None and time.monotonic() < begin + 20:
        os.killpg(process.pid, number)
        time.sleep(pause)
    # One that comes while Python ends kills it; shells call both 130, or 143.
    assert process.returncode in (128 + number, -number)
    assert time.monotonic() < begin + 10
    process.communicate()


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from vknn.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk(net: Path, tmp_path: Path) -> None:
    values = vectors(1500)
    source = table(tmp_path / "t.parquet", values)
    given = [str(w) for w in words(net, source, tmp_path / "out", "--device", "numpy")]
    full = subprocess.run(
        [sys.executable, "-c", FULL.format(limit=8_000), "batch", *given, "--engine", "local"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert full.returncode == 2, full.stderr
    assert f"{tmp_path / 'out'} cannot be written" in full.stderr
    left = [p.name for p in (tmp_path / "out").iterdir() if p.name != "_vknn"]
    assert left == [], "nothing half-written"
    assert batch(*words(net, source, tmp_path / "out")).returncode == 0
    check_doubled(tmp_path / "out", values)


@pytest.mark.parametrize("output", ["file", "file/answers", "/proc/answers"])
def test_a_folder_that_cannot_be_written(output: str, net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(3))
    (tmp_path / "file").write_text("")
    with pytest.raises(vknn.VknnError, match="cannot be written|is a file"):
        job(source, net, tmp_path / output, id="id", layers=[LAYERS])


def test_files_left_half_written_go(net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(3))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".part-000000-abc.parquet.tmp").write_bytes(b"PAR1")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    job(source, net, tmp_path / "out", id="id", layers=[LAYERS])
    left = {p.name for p in (tmp_path / "out").iterdir() if p.suffix != ".parquet"}
    assert left == {"_vknn", "notes.txt"}


def test_two_jobs_in_one_folder(net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(60))
    process = started(words(net, source, tmp_path / "out"), probing("*:sleep=0.05"))
    wait_for(lambda: (tmp_path / "out" / "_vknn" / "running.json").exists(), process)
    with pytest.raises(vknn.VknnError, match="another job works in this folder now"):
        job(source, net, tmp_path / "out", id="id", layers=[LAYERS], restart=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    job(source, net, tmp_path / "out", id="id", layers=[LAYERS])
    check_doubled(tmp_path / "out", vectors(60))


def test_notes(tmp_path: Path) -> None:
    """What a process after another knows of it."""
    folder = Folder(tmp_path)
    folder.create()
    first = Killed(folder, "uuid:0")
    first.begin([b"\\xff", 2, None])
    second = Killed(folder, "uuid:0")
    assert all(second.is_suspicious(name) for name in (b"\\xff", 2, None))
    second.begin([2])
    third = Killed(folder, "uuid:0")
    assert not third.is_deadly(2)
    third.begin([2])
    folder.write_running({**folder.running(), "exit": "SIGSEGV"})
    fourth = Killed(folder, "uuid:1")
    assert fourth.is_deadly(2) and not fourth.is_deadly(b"\\xff")
    assert "on uuid:0 ended 2 times (SIGSEGV)" in fourth.error_row(2)["message"]
    fourth.forget()
    assert not Killed(folder, "uuid:1").suspicious
    fourth.clear()
    assert folder.running() == {}
    (tmp_path / "_vknn" / "running.json").write_text("{dam")
    assert folder.running() == {} and not Killed(folder, "uuid:1").suspicious


def test_limits_are_the_childs_alone() -> None:
    """The test of a full disk left this process as it was."""
    import resource

    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 8_000
