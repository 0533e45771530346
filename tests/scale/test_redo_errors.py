"""Rows with errors that are computed again, in place of the old ones, exactly once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from tests.scale.jobs import (
    PROBE,
    batch,
    by_id,
    job,
    picture_net,
    pictures,
    png,
    same,
    table,
    vectors,
    write_net,
)

from vknn import scale
from vknn.cli import main
from vknn.errors import InputError, VknnError
from vknn.scale.local import LocalRun

BROKEN = (3, 7, 8)
LAYERS = Path(__file__).with_name("probe.py")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return picture_net(tmp_path)


@pytest.fixture
def output(net: Path, tmp_path: Path) -> Path:
    """The answers for twelve pictures, of which three could not be read; now they can."""
    found = pictures(tmp_path / "pictures", 12)
    for number in BROKEN:
        found[number].write_bytes(b"")
    assert job(tmp_path / "pictures", net, tmp_path / "out").errors == {"InputError": 3}
    for number in BROKEN:
        found[number].write_bytes(png(number))
    return tmp_path / "out"


def check_whole(output: Path, net: Path, tmp_path: Path) -> None:
    """Check that answers are those of a job that met no error."""
    job(tmp_path / "pictures", net, tmp_path / "at-once")
    assert same(output, tmp_path / "at-once", "path")
    assert len(by_id(output, "path")) == 12


def test_in_one_process(net: Path, output: Path, tmp_path: Path) -> None:
    before = by_id(output, "path")
    assert job(tmp_path / "pictures", net, output).new_rows == 0, "errors stay until one asks"
    begin = time.monotonic()
    report = job(tmp_path / "pictures", net, output, redo_errors=True)
    assert (report.rows, report.new_rows, report.errors, report.state) == (12, 3, {}, "done")
    assert report.seconds > (time.monotonic() - begin) / 2, "all that it took"
    assert "rows with errors that are computed again: 3" in report.notes
    check_whole(output, net, tmp_path)
    for path, row in by_id(output, "path").items():
        again = before[path]["error"] is not None
        assert (row["batch"] != before[path]["batch"]) == again, "others are not touched"
    report = job(tmp_path / "pictures", net, output, redo_errors=True)
    assert report.new_rows == 0 and "no row has an error" in report.notes


@pytest.mark.device
@pytest.mark.slow
def test_on_ray(ray: Any, net: Path, output: Path, tmp_path: Path) -> None:
    given = (tmp_path / "pictures", net, output)
    report = scale.run(*given, engine="ray", device="numpy", redo_errors=True)
    assert (report.rows, report.new_rows, report.errors) == (12, 3, {})
    check_whole(output, net, tmp_path)


def test_by_command(
    net: Path, output: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["batch", str(net), str(tmp_path / "pictures"), "--output", str(output)]
    words += ["--device", "numpy", "--redo-errors"]
    assert main([*words, "--dry-run"]) == 0
    assert "12 records in 12 files" in (told := capfd.readouterr().out) and "9 of them" in told
    assert len(by_id(output, "path")) == 12, "a plan removes nothing"
    assert main(words) == 0
    check_whole(output, net, tmp_path)
    with pytest.raises(SystemExit):
        main([*words, "--redo-suspect"])
    assert "not allowed with argument --redo-errors" in capfd.readouterr().err


def test_broken_off(
    net: Path, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records have no row then, and the plain command computes them."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalRun, "_finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            job(tmp_path / "pictures", net, output, redo_errors=True)
    assert len(by_id(output, "path")) == 9
    assert job(tmp_path / "pictures", net, output).new_rows == 3
    check_whole(output, net, tmp_path)


def test_a_model_that_cannot_be_opened_removes_nothing(
    net: Path, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise VknnError("no such device")

    monkeypatch.setattr("vknn.scale.steps.Worker", broken)
    with pytest.raises(VknnError, match="no such device"):
        job(tmp_path / "pictures", net, output, redo_errors=True)
    assert len(by_id(output, "path")) == 12


def test_records_that_left_the_source_keep_their_rows(
    net: Path, output: Path, tmp_path: Path
) -> None:
    os.remove(tmp_path / "pictures" / "0007.png")
    report = job(tmp_path / "pictures", net, output, redo_errors=True)
    assert (report.rows, report.new_rows, report.error_count) == (12, 2, 1)
    assert any(note.startswith("rows with errors that stay: 1,") for note in report.notes)
    assert len([row for row in by_id(output, "path").values() if row["error"]]) == 1


def test_errors_that_come_again(net: Path, output: Path, tmp_path: Path) -> None:
    (tmp_path / "pictures" / "0008.png").write_bytes(b"no picture")
    report = job(tmp_path / "pictures", net, output, redo_errors=True, errors=1)
    assert (report.rows, report.new_rows, report.error_count) == (12, 3, 1)


def test_all_rows_had_errors(net: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "pictures").mkdir()
    for number in range(12):
        (folder / f"{number:04d}.png").write_bytes(b"")
    assert job(folder, net, tmp_path / "out").error_count == 12
    pictures(folder, 12)
    report = job(folder, net, tmp_path / "out", redo_errors=True)
    assert (report.rows, report.new_rows, report.error_count) == (12, 12, 0)
    check_whole(tmp_path / "out", net, tmp_path)


def test_what_is_refused(tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(5))
    net = write_net(tmp_path)
    with pytest.raises(InputError, match="restart, redo_suspect and redo_errors: one of them"):
        job(source, net, tmp_path / "out", id="id", restart=True, redo_errors=True)
    with pytest.warns(RuntimeWarning):
        job(source, net, tmp_path / "none")
    with pytest.raises(VknnError, match="--restart begins anew, --id names a column"):
        job(source, net, tmp_path / "none", redo_errors=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@pytest.mark.parametrize(
    "option", ["--restart", pytest.param("--redo-errors", marks=pytest.mark.slow)]
)
def test_processes_that_end_meanwhile(option: str, tmp_path: Path) -> None:
    """What goes on in place of an ended process removes nothing more."""
    values = vectors(40)
    source, net = table(tmp_path / "t.parquet", values), write_net(tmp_path, PROBE)
    words = [net, source, "--output", tmp_path / "out", "--id", "id", "--layers", LAYERS]
    first = batch(*words, environment={"VKNN_TEST_PROBE": "20:fail,35:fail"})
    assert first.returncode == 0, first.stderr
    again = batch(*words, option, environment={"VKNN_TEST_PROBE": "35:kill"})
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("another goes on") <= 3
    rows = by_id(tmp_path / "out")
    assert {name for name, row in rows.items() if row["error"]} == {"r35"}
    assert rows["r35"]["error"]["type"] == "ProcessDied"
    np.testing.assert_array_equal(rows["r20"]["out"], 2 * values[20])
    last = batch(*words, "--redo-errors")
    assert last.returncode == 0, last.stderr
    np.testing.assert_array_equal(by_id(tmp_path / "out")["r35"]["out"], 2 * values[35])
