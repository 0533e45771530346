"""Jobs that are taken up again, refused, or begun anew; plans; options."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from tests.scale.jobs import (
    ANY_SQUARES,
    HOST,
    answers,
    by_id,
    document,
    job,
    same,
    table,
    vectors,
    write_net,
)

from vknn import scale
from vknn.errors import InputError, ModelFormatError, VknnError
from vknn.scale.folder import Folder

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_net(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return table(tmp_path / "t.parquet", vectors(50), more=list(range(50)))


def test_more_records_than_before(net: Path, source: Path, tmp_path: Path) -> None:
    table(source, vectors(20))
    assert job(source, net, tmp_path / "out", id="id").new_rows == 20
    table(source, vectors(50))
    report = job(source, net, tmp_path / "out", id="id")
    assert (report.rows, report.new_rows) == (50, 30)
    job(source, net, tmp_path / "at-once", id="id")
    assert same(tmp_path / "out", tmp_path / "at-once")
    again = job(source, net, tmp_path / "out", id="id")
    assert again.new_rows == 0 and "nothing was left to do" in again.notes[0]


def test_another_job_is_refused(net: Path, source: Path, tmp_path: Path) -> None:
    job(source, net, tmp_path / "out", id="id")
    before = answers(tmp_path / "out")
    for changed, text in (
        ({"precision": "fp16"}, "precision=fp32, not fp16"),
        ({"outputs": ["out"]}, r"outputs=None, not \['out'\]"),
        ({"keep": ["more"]}, r"keep=\[\], not \['more'\]"),
        ({"mean": [1.0]}, r"mean=None, not \[1.0\]"),
    ):
        with pytest.raises(VknnError, match=f"holds another job: {text}; give another folder"):
            job(source, net, tmp_path / "out", id="id", **changed)
    other = tmp_path / "other.parquet"
    shutil.copy(source, other)
    with pytest.raises(VknnError, match=r"source \['.*t.parquet'\], not \['.*other.parquet'\]"):
        job(other, net, tmp_path / "out", id="id")
    write_net(tmp_path, ANY_SQUARES)
    with pytest.raises(VknnError, match=r"job: model net.param \(sha256 \w+\), not net.param \(s"):
        job(source, net, tmp_path / "out", id="id")
    assert answers(tmp_path / "out") == before
    report = job(source, net, tmp_path / "out", id="id", restart=True)
    assert report.new_rows == report.rows == 50 and len(by_id(tmp_path / "out")) == 50


def test_what_does_not_change_answers_may_differ(net: Path, source: Path, tmp_path: Path) -> None:
    job(source, net, tmp_path / "out", id="id")
    report = job(source, net, tmp_path / "out", id="id", batch_size=7, check="1/2", errors=3)
    assert report.new_rows == 0


def test_a_job_that_wrote_nothing_leaves_its_folder(
    net: Path, source: Path, tmp_path: Path
) -> None:
    """A wrong option that is put right is no other job."""
    with pytest.raises(InputError, match="no input 'x'"):
        job(source, net, tmp_path / "out", id="id", columns={"x": "data"})
    report = job(source, net, tmp_path / "out", id="id", columns={"data": "data"})
    assert report.rows == 50 and document(tmp_path / "out")["options"]["columns"] == {
        "data": "data"
    }


def test_a_source_that_lost_records_while_the_job_ran(
    net: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that says "done" has a row for each record that was counted."""

    def begun(folder: Folder) -> None:
        table(source, vectors(40))

    monkeypatch.setattr(Folder, "create", begun)
    (tmp_path / "out" / "_vknn").mkdir(parents=True)
    with pytest.raises(scale.JobError, match="50 records have 40 rows: the source changed") as e:
        job(source, net, tmp_path / "out", id="id")
    assert e.value.report is not None and e.value.report.state == "stopped"
    monkeypatch.undo()
    assert job(source, net, tmp_path / "out", id="id").state == "done"


def test_a_damaged_job(net: Path, source: Path, tmp_path: Path) -> None:
    job(source, net, tmp_path / "out", id="id")
    path = tmp_path / "out" / "_vknn" / "job.json"
    whole = json.loads(path.read_text())
    (column,) = whole["layout"]["outputs"]
    other_forms = [
        {"options": None}, {"options": []}, {"place": 7}, {"stacked": "8"}, {"stacked": {"a": 0}},
        {"devices": None}, {"layout": {}}, {"layout": {"outputs": [], "task": 1}},
        *({"layout": {"outputs": [own], "task": None}} for own in (
            3, {}, {**column, "name": None}, {**column, "dtype": "float33"},
            {**column, "shape": "ab"}, {**column, "shape": [-1]},
        )),
    ]  # fmt: skip
    changed = [json.dumps({**whole, **form}) for form in other_forms]
    for text in ("{", "", "[]", "null", "[" * 100_000, *changed):
        path.write_text(text)
        with pytest.raises(VknnError, match="job.json is damaged: --restart begins the job anew"):
            job(source, net, tmp_path / "out", id="id")
    assert job(source, net, tmp_path / "out", id="id", restart=True).new_rows == 50


def test_answers_that_are_damaged(net: Path, source: Path, tmp_path: Path) -> None:
    """As a machine may leave them that lost its power."""
    job(source, net, tmp_path / "out", id="id")
    (part,) = (tmp_path / "out").glob("*.parquet")
    part.write_bytes(b"")
    with pytest.raises(VknnError, match=rf"{part.name}.*without this file its records are") as e:
        job(source, net, tmp_path / "out", id="id")
    assert e.value.__suppress_context__
    part.unlink()
    assert job(source, net, tmp_path / "out", id="id").new_rows == 50


def test_parquet_files_of_others(net: Path, source: Path, tmp_path: Path) -> None:
    """They are never removed, and answers do not come among them."""
    (tmp_path / "out").mkdir()
    shutil.copy(source, tmp_path / "out" / "mine.parquet")
    for restart in (False, True):
        with pytest.raises(VknnError, match="has Parquet files of others: give another folder"):
            job(source, net, tmp_path / "out", id="id", restart=restart)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine.parquet"]


def test_ids_of_another_type_are_not_computed_again(net: Path, tmp_path: Path) -> None:
    """1 and "1" are two ids: all records would have two rows."""
    source = table(tmp_path / "t.parquet", vectors(3), [1, 2, 3])
    job(source, net, tmp_path / "out", id="id")
    table(source, vectors(4), pa.array([1, 2, 3, 4], pa.float64()))
    assert job(source, net, tmp_path / "out", id="id").new_rows == 1
    table(source, vectors(3), ["1", "2", "3"])
    with pytest.raises(VknnError, match="ids are int64, and column 'id' is string now: give an"):
        job(source, net, tmp_path / "out", id="id")
    assert len(answers(tmp_path / "out")) == 4
    assert job(source, net, tmp_path / "out", id="id", restart=True).rows == 3


def test_the_same_name_in_another_folder(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records have the names of others, and were taken for done."""
    for day in ("monday", "tuesday"):
        (tmp_path / day / "in").mkdir(parents=True)
        np.save(tmp_path / day / "in" / "a.npy", vectors(3))
    monkeypatch.chdir(tmp_path / "monday")
    assert job("in", net, tmp_path / "out").rows == 3
    assert job("in", net, "own").rows == 3
    address = (tmp_path / "monday" / "in").as_uri()
    assert job(address, net, tmp_path / "by-address").rows == 3
    monkeypatch.chdir(tmp_path / "tuesday")
    assert job(address, net, tmp_path / "by-address").new_rows == 0
    with pytest.raises(VknnError, match=r"holds another job: source \['.*monday/in'\], not \['"):
        job("in", net, tmp_path / "out")
    (tmp_path / "monday").rename(tmp_path / "moved")  # with its answers: the job is the same
    monkeypatch.chdir(tmp_path / "moved")
    assert job("in", net, "own").new_rows == 0


def test_restart_keeps_answers_where_the_job_cannot_begin(
    net: Path, source: Path, tmp_path: Path
) -> None:
    job(source, net, tmp_path / "out", id="id")
    with pytest.raises(ModelFormatError, match="there is no such file"):
        job(source, tmp_path / "nowhere.param", tmp_path / "out", id="id", restart=True)
    for wrong in ({"outputs": ["nope"]}, {"columns": {"data": "nope"}}, {"device": "vulkan:99"}):
        with pytest.raises(VknnError, match="nope|vulkan:99|no Vulkan loader|no Vulkan driver"):
            job(source, net, tmp_path / "out", id="id", restart=True, **wrong)
    assert len(answers(tmp_path / "out")) == 50


def test_a_slash_makes_no_other_job(net: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table(tmp_path / "in" / "t.parquet", vectors(3))
    job(f"{tmp_path / 'in'}/", net, tmp_path / "out", id="id")
    assert job(tmp_path / "in", net, tmp_path / "out", id="id").new_rows == 0


def test_without_an_id(net: Path, source: Path, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="this job cannot be taken up again"):  # at the start
        report = job(source, net, tmp_path / "out")
    assert "this job cannot be taken up again (--id names one)" in report.notes[0]
    rows = answers(tmp_path / "out")
    assert set(rows[0]) == {"out", "device", "batch", "error"} and len(rows) == 50
    np.testing.assert_array_equal([row["out"] for row in rows], np.square(vectors(50)))
    with pytest.raises(VknnError, match="without an id column nothing says which records they are"):
        job(source, net, tmp_path / "out")
    assert job(source, net, tmp_path / "out", restart=True).rows == 50
    assert len(answers(tmp_path / "out")) == 50


def test_an_error_of_the_systems_is_told_as_it_is(
    net: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as one of the answers' folder."""
    from vknn.scale import local

    def broken(*_: Any) -> Any:
        raise OSError(5, "Input/output error", "a disk")

    monkeypatch.setattr(local.LocalRun, "_phases", broken)
    with pytest.raises(OSError, match="a disk"):
        job(source, net, tmp_path / "out", id="id")


def test_progress_is_told(
    net: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vknn.scale import local

    monkeypatch.setattr(local, "TELL_SECONDS", 0.0)
    told: list[tuple[int, int | None]] = []
    job(
        source, net, tmp_path / "out", id="id", batch_size=10,
        progress=lambda outcome: told.append((outcome.rows, outcome.total)),
    )  # fmt: skip
    assert told == [(10, 50), (20, 50), (30, 50), (40, 50), (50, 50)]


def test_progress_within_a_slow_batch(
    net: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vknn.scale import local

    monkeypatch.setattr(local, "_SLOW_BATCH_SECONDS", 0.0)
    told: list[int] = []
    job(source, net, tmp_path / "out", id="id", progress=lambda outcome: told.append(outcome.rows))
    assert told[:20] == [0] * 20 and len(told) > 40


def test_a_plan(net: Path, source: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"id": "id", "keep": ["more"], "device": "numpy", "engine": "local"}
    plan = scale.plan(source, net, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    assert plan.source == {
        "kind": "parquet", "files": 1, "bytes": source.stat().st_size, "records": 50,
    }  # fmt: skip
    assert plan.inputs == {"data": "data"} and plan.done == 0 and plan.engine == "local"
    assert plan.columns["id"] == "string" and plan.columns["more"] == "int64"
    assert plan.first is not None and plan.first["id"] == "r0"
    assert plan.answer_bytes == 50 * plan.first["bytes"]
    assert "record 'r0' computed in" in str(plan) and "50 records in 1 files" in str(plan)
    job(source, net, tmp_path / "out", id="id", keep=["more"])
    assert scale.plan(source, net, tmp_path / "out", **options).done == 50


def test_first_rows_of_a_plan(net: Path, tmp_path: Path) -> None:
    data = pa.array([None, *vectors(5).tolist()], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": list("abcdef"), "data": data}), tmp_path / "t.parquet")
    plan = scale.plan(tmp_path / "t.parquet", net, tmp_path / "out", id="id", **HOST)
    assert [row["id"] for row in plan.rows] == list("abcd")
    assert [row["error"] is None for row in plan.rows] == [False, True, True, True]
    assert "\nrow 'a': InputError: column 'data' is null\nrow 'b': computed" in str(plan)
    assert json.loads(plan.to_json())["rows"][0]["error"]["type"] == "InputError"


@pytest.mark.parametrize(
    "options, text",
    [
        ({"engine": "spark"}, "engine='spark': expected one of auto, local, ray"),
        ({"progress": 5}, "progress=5: expected a function"),
        ({"address": "ray://x"}, "an address is of a Ray cluster, and engine is 'local'"),
        ({"per_device": 2}, "engine 'local' has one worker"),
        ({"workers": 3}, "engine 'local' has one worker"),
        ({"per_device": 0}, "per_device=0: expected a whole number from 1 to 64"),
        ({"batch_size": 1 << 20}, "expected a whole number from 1 to 65536"),
        ({"resize": "fold"}, "resize='fold': expected one of"),
        ({"keep": ["more", "more"]}, "keep names more twice"),
        ({"outputs": ["out", "out"]}, "outputs names out twice"),
        ({"sise": (3, 3)}, "there is no option 'sise'; there are"),
        ({"columns": ["data"]}, "columns is a dict"),
    ],
)
def test_options_that_are_refused(
    options: dict[str, Any], text: str, net: Path, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=text):
        job(source, net, tmp_path / "out", **{"id": "id", **options})
    assert not list(tmp_path.glob("out/*.parquet"))


def test_a_folder_without_a_name(net: Path, source: Path) -> None:
    with pytest.raises(InputError, match="the folder for answers has no name"):
        scale.run(source, net, "", id="id", **HOST)


def test_which_engine(net: Path, tmp_path: Path) -> None:
    """A small archive, whose records nobody counted, is no reason to start Ray."""
    pytest.importorskip("PIL")
    from tests.scale.jobs import picture_net
    from tests.scale.test_archives import shard

    shard(tmp_path / "a.tar", 0, 3)
    report = job(tmp_path / "a.tar", picture_net(tmp_path), tmp_path / "out", engine="auto")
    assert report.engine == "local" and report.rows == 3


def test_options_of_a_predictor(net: Path, source: Path, tmp_path: Path) -> None:
    predictor = scale.Predictor(net, device="numpy", id="id")
    report = scale.run(source, predictor, tmp_path / "out", engine="local")
    assert report.rows == 50
    with pytest.raises(InputError, match="options belong to the Predictor"):
        scale.run(source, predictor, tmp_path / "out", batch_size=3)
