"""Jobs on Ray that are broken off and taken up again: every id ends in exactly one row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale import ray_jobs
from vknn import scale
from vknn.scale.doubles import drop_doubles
from vknn.scale.folder import Folder
from vknn.scale.on_ray import remove_pending

pytestmark = pytest.mark.device

ROWS, FILES = 600, 12
#: A program that is joined to Ray itself: the sizes that it sets are not a child's.
DRIVER = """
import sys
from vknn import scale
source, model, output, layers, engine, address = sys.argv[1:]
if address:
    import ray
    ray.init(address=address, log_to_driver=False)
scale.run(
    source, model, output, engine=engine, id="id", layers=[layers],
    device="llvmpipe", batch_size=10, workers=1,
)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "engines",
    [
        ("ray", "ray"),
        pytest.param(("ray", "local"), marks=pytest.mark.slow),
        pytest.param(("local", "ray"), marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_is_killed(
    ray_cluster: Any, ray: Any, tmp_path: Path, engines: tuple[str, str]
) -> None:
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(ROWS)], FILES)
    output = tmp_path / "out"
    few = "import vknn.scale.portions as r, vknn.scale.parts as p\n"
    few += "r._FILE_ROWS = r._QUICK_ROWS = p.PART_ROWS = 20\n"
    address = ray_cluster.address if engines[0] == "ray" else ""
    command = [sys.executable, "-c", few + DRIVER]
    command += map(str, (source, model, output, layers, engines[0], address))
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 90
        while len(list(output.glob("*.parquet"))) < 2 and time.monotonic() < until:
            assert driver.poll() is None, "the driver ended too early"
            time.sleep(0.05)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    remove_pending(Folder(output))
    before = sum(pq.read_metadata(p).num_rows for p in output.glob("*.parquet"))
    assert 0 < before < ROWS

    report = scale.run(
        source, model, output, engine=engines[1], id="id", layers=[layers], device="llvmpipe",
        batch_size=10,
    )  # fmt: skip
    assert report.rows == ROWS
    assert report.new_rows < ROWS
    found = ray_jobs.rows(output)
    assert sorted(row["id"] for row in found) == list(range(ROWS))
    assert all(row["out"] == [2.0 * row["id"]] * 8 for row in found)
    assert not [p for p in tmp_path.rglob("*") if ".pending" in p.name]


#: The command where a shell's background has made it deaf to Ctrl-C.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import vknn.scale.on_ray
vknn.scale.portions._FILE_ROWS = vknn.scale.portions._QUICK_ROWS = 20
from vknn.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "presses, number",
    [(1, signal.SIGINT), (2, signal.SIGINT), (1, signal.SIGTERM), (2, signal.SIGTERM)],
)
def test_a_command_that_is_interrupted(
    ray_cluster: Any, ray: Any, tmp_path: Path, presses: int, number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM end a job, a second one at once; given again it goes on where it was."""
    model, layers = ray_jobs.write_model(tmp_path, "Slow", ray_jobs.SLOW)
    source = ray_jobs.write_numbers(tmp_path / "source", [float(n) for n in range(ROWS)], FILES)
    output = tmp_path / "out"
    given = (
        "batch", model, source, "--output", output, "--id", "id", "--layers", layers,
        "--engine", "ray", "--address", ray_cluster.address, "--device", "llvmpipe",
        "--batch-size", 10, "--workers", 1,
    )  # fmt: skip
    command = [sys.executable, "-c", COMMAND, *map(str, given)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 90
    while len(list(output.glob("*.parquet"))) < 2 and time.monotonic() < until:
        assert process.poll() is None, "the command ended too early"
        time.sleep(0.05)
    begin = time.monotonic()
    for _ in range(presses):
        os.killpg(process.pid, number)
        time.sleep(1.2 if number == signal.SIGTERM else 0.3)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number), errors
    if presses == 1:
        assert errors.endswith("vknn: stopped\n") and "Unhandled error" not in errors
    assert time.monotonic() < begin + (30 if presses == 1 else 10)
    before = sum(pq.read_metadata(p).num_rows for p in output.glob("*.parquet"))
    assert 0 < before < ROWS

    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert again.returncode == 0, again.stderr
    found = ray_jobs.rows(output)
    assert sorted(row["id"] for row in found) == list(range(ROWS))
    assert all(row["out"] == [2.0 * row["id"]] * 8 for row in found)


def test_pending_files_are_removed(tmp_path: Path) -> None:
    """What Ray did not finish writing goes, with all notes; what it finished stays."""
    output, notes = tmp_path / "out", tmp_path / "out.checkpoint" / "vknn-run"
    output.mkdir()
    notes.mkdir(parents=True)
    table = pa.table({"id": [1]})
    for name in ("part-a-u_000001-0", "part-a-u_000002-0", "part-b-u_000001-0"):
        pq.write_table(table, output / f"{name}.parquet")
    pq.write_table(table, notes / "part-a-u_000001.pending.parquet")
    pq.write_table(table, notes / "part-a-u_000002.parquet")
    remove_pending(Folder(output))
    left = sorted(os.path.basename(path) for path in Folder(output).parts())
    assert left == ["part-a-u_000002-0.parquet", "part-b-u_000001-0.parquet"]
    assert not notes.parent.exists()


def test_a_folder_of_others_with_the_name_of_the_notes(tmp_path: Path) -> None:
    """Beside answers/ it is the answers.checkpoint/ of a training, say: it stays, all of it."""
    own, folder = tmp_path / "out.checkpoint", Folder(tmp_path / "out")
    (own / "epoch").mkdir(parents=True)
    for name in ("weights.pt", "epoch/part-a.pending.parquet", "vknn-notes.txt"):
        (own / name).write_bytes(b"of others")
    (own / "vknn-run").mkdir()
    (tmp_path / "out").mkdir()
    before = sorted(path for path in own.rglob("*") if path.name != "vknn-run")
    remove_pending(folder)
    folder.clear()
    assert sorted(own.rglob("*")) == before
    (tmp_path / "empty.checkpoint").mkdir()
    remove_pending(Folder(tmp_path / "empty"))
    assert (tmp_path / "empty.checkpoint").is_dir()
    (tmp_path / "file.checkpoint").write_bytes(b"of others")
    remove_pending(Folder(tmp_path / "file"))
    Folder(tmp_path / "file").clear()
    assert (tmp_path / "file.checkpoint").read_bytes() == b"of others"


def test_rows_that_a_process_wrote_too_late(tmp_path: Path) -> None:
    """The first row of an id stays, a file without any goes."""
    for name, ids in (("a", [1, 2]), ("b", [2, 3]), ("c", [1])):
        pq.write_table(
            pa.table({"id": ids, "from": [name] * len(ids)}), tmp_path / f"{name}.parquet"
        )
    assert sorted(drop_doubles(Folder(tmp_path), "id")) == [1, 2]
    left = {
        r["id"]: r["from"] for p in tmp_path.glob("*.parquet") for r in pq.read_table(p).to_pylist()
    }
    assert left == {1: "a", 2: "a", 3: "b"}
    assert not (tmp_path / "c.parquet").exists()
    assert drop_doubles(Folder(tmp_path), "id") == []
