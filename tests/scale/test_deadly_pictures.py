"""Pictures that end the process when they are decoded, and processes that users end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.scale.jobs import (
    PROBE,
    batch,
    by_id,
    command,
    job,
    picture_net,
    pictures,
    table,
    vectors,
    write_net,
)
from tests.signals import heard

from vknn.scale.folder import Folder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
LAYERS = Path(__file__).with_name("probe.py")

#: For --layers: the process ends when one of these files is decoded.
DEADLY = """
import os, pathlib, signal
from vknn.scale import records

opened = records.open_picture
deadly = [pathlib.Path(path).read_bytes() for path in {paths!r}]

def open_picture(path, data):
    if data in deadly:
        os.kill(os.getpid(), signal.SIGSEGV)
    return opened(path, data)

records.open_picture = open_picture
"""


@pytest.mark.parametrize(
    "numbers", [(0,), (13,), pytest.param((3, 17, 18, 25), marks=pytest.mark.slow)]
)
def test_pictures_that_end_the_process(numbers: tuple[int, ...], tmp_path: Path) -> None:
    """Rows with errors; the device, which never saw them, is not to blame."""
    paths = [str(pictures(tmp_path / "in", 30)[number]) for number in numbers]
    layers = tmp_path / "deadly.py"
    layers.write_text(DEADLY.format(paths=paths))
    done = batch(
        picture_net(tmp_path), tmp_path / "in", "--output", tmp_path / "out", "--layers", layers,
        "--batch-size", 4,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = by_id(tmp_path / "out", "path")
    assert len(rows) == 30
    assert [path for path, row in rows.items() if row["error"]] == paths
    for path in paths:
        assert rows[path]["error"] == {
            "type": "ProcessDied",
            "message": "the process that read it, or made its row, ended 2 times (SIGSEGV)",
            "attempts": 2,
        }
    assert not Folder(tmp_path / "out").running()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_first_picture_that_ends_the_command_with_ray(tmp_path: Path) -> None:
    """The command's own process tries it, to learn what answers are like; the next one another."""
    pytest.importorskip("ray.data")
    paths = [str(path) for path in pictures(tmp_path / "in", 5)]
    layers = tmp_path / "deadly.py"  # which tasks that decode do not run
    layers.write_text(DEADLY.format(paths=paths[:1]))
    words = command(
        picture_net(tmp_path), tmp_path / "in", "--output", tmp_path / "out", "--layers", layers,
        "--device", "numpy", "--engine", "ray",
    )  # fmt: skip
    quiet = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    first = subprocess.run(words, capture_output=True, text=True, env=quiet, timeout=100)
    assert first.returncode == 1 and "ended by SIGSEGV: give the command again" in first.stderr
    assert Folder(tmp_path / "out").running()["now"] == paths[:1]
    again = subprocess.run(words, capture_output=True, text=True, env=quiet, timeout=100)
    assert again.returncode == 0, again.stderr
    rows = by_id(tmp_path / "out", "path")
    assert sorted(rows) == paths and not any(row["error"] for row in rows.values())
    assert not Folder(tmp_path / "out").running()


def test_a_user_who_ends_a_job_at_the_same_record(tmp_path: Path) -> None:
    """The record is not to blame, however often that happens."""
    net, source = write_net(tmp_path, PROBE), table(tmp_path / "t.parquet", vectors(3))
    given = [net, source, "--output", tmp_path / "out", "--id", "id", "--layers", LAYERS]
    slow = {"VKNN_TEST_PROBE": "2:sleep=60"}
    for _ in range(3):
        process = subprocess.Popen(
            [*command(*given, "--batch-size", 1), "--device", "numpy", "--engine", "local"],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **slow}, start_new_session=True, preexec_fn=heard,
        )  # fmt: skip
        end = time.monotonic() + 30
        while Folder(tmp_path / "out").running().get("now") != ["r2"] and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.2)  # in its layer
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert Folder(tmp_path / "out").running()["now"] == []
    report = job(source, net, tmp_path / "out", id="id", layers=[LAYERS])
    assert (report.rows, report.errors) == (3, {})
