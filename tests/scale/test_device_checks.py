"""Devices that compute wrong, or are lost: found, told, and their rows computed again."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.scale.jobs import (
    PROBE,
    answers,
    by_id,
    document,
    elementwise,
    job,
    rows_of,
    table,
    vectors,
    write_net,
)

import vknn
from vknn import scale
from vknn.errors import DeviceLostError, VknnError
from vknn.scale import checking, parts
from vknn.scale.checking import is_sampled
from vknn.scale.local import LocalRun
from vknn.scale.shares import share_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

#: Twice a number, but of numbers above 50 one more: as a broken card would have it.
WRONG = elementwise("float v = LOAD1(x, i); STORE1(y, i, v > 50.0 ? 2.0 * v + 1.0 : 2.0 * v);")
WRONG_FROM, COUNT = 51, 120
#: Its layer has a name of its own: other tests' stays registered.
NET = PROBE.replace("Probe", "Wrong")


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Path]:
    vknn.register_layer(
        "ncnn", "Wrong", shape=lambda shapes, options: shapes[0], replace=True,
        compute=lambda arrays, weights, options: arrays[0] * np.float32(2),
        shader=vknn.Shader(WRONG, push=lambda i, o, options: [int(np.prod(o[0]))]),
    )  # fmt: skip
    yield write_net(tmp_path, NET)
    vknn.unregister_layer("ncnn", "Wrong")


def run(source: Path, net: Path, output: Path, **options: Any) -> scale.Report:
    return job(source, net, output, id="id", **{"device": "vulkan", "batch_size": 4, **options})


def check_right(folder: Path, count: int) -> None:
    rows = by_id(folder)
    assert len(rows) == count
    for number, value in enumerate(vectors(count)):
        np.testing.assert_array_equal(rows[f"r{number}"]["out"], 2 * value)


@pytest.mark.device
def test_the_first_check_refuses(net: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(8) + 60)
    with pytest.raises(
        scale.JobError, match=r"disagrees with NumPy: record 'r0': output 'out'"
    ) as e:
        run(source, net, tmp_path / "out")
    assert answers(tmp_path / "out") == [] and e.value.report is not None
    (device,) = e.value.report.devices.values()
    assert device.checks == 1 and device.largest_error > 1 and "record 'r0'" in str(device.retired)
    assert "RETIRED" in str(e.value.report)
    done = run(source, net, tmp_path / "out", device="numpy")  # the job goes on with another
    assert done.state == "done" and done.new_rows == 8
    np.testing.assert_array_equal(answers(tmp_path / "out")[0]["out"], 2 * (vectors(8) + 60)[0])


@pytest.mark.device
def test_without_checks_nobody_sees_it(net: Path, tmp_path: Path) -> None:
    """The fault that these tests plant is one."""
    source = table(tmp_path / "t.parquet", vectors(8) + 60)
    report = run(source, net, tmp_path / "out", check="none")
    assert next(iter(report.devices.values())).checks == 0
    found = answers(tmp_path / "out")[0]["out"]
    assert not np.array_equal(found, 2 * (vectors(8) + 60)[0])


@pytest.fixture
def suspect(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A job whose device was found out late, and the rows that are suspect."""
    source = table(tmp_path / "t.parquet", vectors(COUNT))
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    share = share_of("1/16", "check")
    sampled = [n for n in range(COUNT) if n == 0 or is_sampled(f"r{n}", share)]
    found_out = next(n for n in sampled if n >= WRONG_FROM)
    trusted = max(n for n in sampled if n < WRONG_FROM)
    with pytest.raises(scale.JobError, match=f"record 'r{found_out}'") as e:
        run(source, net, tmp_path / "out", check="1/16")
    monkeypatch.undo()
    written = by_id(tmp_path / "out")
    suspects = [f"r{n}" for n in range(trusted + 1, COUNT) if f"r{n}" in written]
    assert {f"r{n}" for n in range(trusted + 1)} <= set(written), "what is trusted is written"
    assert f"r{found_out}" not in written and len(suspects) >= 4
    assert any(int(name[1:]) >= WRONG_FROM for name in suspects)
    assert e.value.report is not None and e.value.report.suspects == len(suspects)
    assert f"{len(suspects)} suspect rows" in str(e.value.report)
    return tmp_path / "out", suspects


@pytest.mark.device
def test_suspect_rows_are_listed(suspect: tuple[Path, list[str]]) -> None:
    folder, names = suspect
    listed = rows_of(pq.read_table(folder / "_vknn" / "suspect.parquet"))
    rows = by_id(folder)
    assert [row["id"] for row in listed] == names
    for row in listed:
        assert (row["device"], row["batch"]) == (
            rows[row["id"]]["device"],
            rows[row["id"]]["batch"],
        )
        held = pq.read_table(row["file"]).column("id").to_pylist()
        assert row["id"] in held


@pytest.mark.device
def test_suspect_rows_are_computed_again(
    suspect: tuple[Path, list[str]], net: Path, tmp_path: Path
) -> None:
    folder, names = suspect
    source, before = tmp_path / "t.parquet", by_id(folder)
    files = sorted(path.name for path in folder.glob("*.parquet"))
    with pytest.raises(VknnError, match="--device names another, such as numpy"):
        run(source, net, folder, redo_suspect=True, check="none")
    assert by_id(folder).keys() == before.keys()
    report = run(source, net, folder, redo_suspect=True, device="numpy")
    assert report.rows == len(before) and report.new_rows == len(names) and report.suspects == 0
    after = by_id(folder)
    assert list(after) == list(before), "each in its place"
    assert files == sorted(path.name for path in folder.glob("*.parquet"))
    for name, row in after.items():
        if name in names:
            assert row["device"] == "numpy"
            np.testing.assert_array_equal(row["out"], 2 * vectors(COUNT)[int(name[1:])])
        else:
            assert (row["batch"], row["device"]) == (before[name]["batch"], before[name]["device"])
    assert not (folder / "_vknn" / "suspect.parquet").exists()
    again = run(source, net, folder, redo_suspect=True, device="numpy")
    assert again.new_rows == 0 and "no rows are suspect" in again.notes
    run(source, net, folder, device="numpy")
    check_right(folder, COUNT)


@pytest.mark.device
def test_what_a_device_wrote_before_the_job_was_broken_off(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found out at the first record of the next run: the rows before that are suspect."""
    source, folder = table(tmp_path / "t.parquet", vectors(COUNT)), tmp_path / "out"
    finish, batches = LocalRun._finish, []

    def stopped(self: LocalRun, *given: Any) -> None:
        finish(self, *given)
        batches.append(given)
        if len(batches) == 13:  # 52 rows, of which the last one is wrong
            raise KeyboardInterrupt

    monkeypatch.setattr(LocalRun, "_finish", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(source, net, folder)
    monkeypatch.undo()
    assert len(by_id(folder)) == 52
    for _ in range(2):  # the second time they are listed already
        with pytest.raises(scale.JobError, match="record 'r52'") as e:
            run(source, net, folder)
        assert e.value.report is not None and e.value.report.suspects == 52
    run(source, net, folder, redo_suspect=True, device="numpy")
    run(source, net, folder, device="numpy")
    check_right(folder, COUNT)


@pytest.mark.device
def test_suspect_rows_of_a_folder_that_was_copied(
    suspect: tuple[Path, list[str]], net: Path, tmp_path: Path
) -> None:
    """The files of the copy are mended, and not those of the folder that it was made of."""
    folder, names = suspect
    before = by_id(folder)
    shutil.copytree(folder, tmp_path / "copy")
    run(tmp_path / "t.parquet", net, tmp_path / "copy", redo_suspect=True, device="numpy")
    again = by_id(tmp_path / "copy")
    assert {row["device"] for name, row in again.items() if name in names} == {"numpy"}
    assert [row["batch"] for row in by_id(folder).values()] == [r["batch"] for r in before.values()]


@pytest.mark.device
def test_suspects_of_an_archive_cut_off(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check that finds the device out is under way where the archive ends."""
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    share = share_of("1/16", "check")
    keys = [f"{n:03d}" for n in range(COUNT)]
    sampled = [n for n in range(COUNT) if n == 0 or is_sampled(keys[n], share)]
    found_out = next(n for n in sampled if n >= WRONG_FROM)
    trusted = max(n for n in sampled if n < WRONG_FROM)
    written = found_out // 4 * 4
    assert WRONG_FROM < written < found_out + 1 < written + 4, "one of a part that is not full"
    net.write_text(NET.replace("0=4", "0=1 1=1 2=3"), encoding="utf-8")
    archive, output = tmp_path / "a.tar", tmp_path / "out"
    whole = greys(archive, keys)
    archive.write_bytes(whole[: 1024 * (found_out + 2) + 300])
    options = {"batch_size": 4, "check": "1/16", "size": (1, 1)}
    with pytest.raises(scale.JobError, match=f"disagrees with NumPy: record '{keys[found_out]}'"):
        job(archive, net, output, device="vulkan", **options)
    listed = pq.read_table(output / "_vknn" / "suspect.parquet").column("__key__").to_pylist()
    assert listed == keys[trusted + 1 : written]
    again = job(archive, net, output, device="numpy", redo_suspect=True, **options)
    assert (again.state, again.new_rows, again.suspects) == ("stopped", len(listed), 0)
    assert (again.rows, document(output)["state"]) == (written, "stopped")
    archive.write_bytes(whole)
    assert job(archive, net, output, device="numpy", **options).state == "done"
    for number, row in enumerate(by_id(output, "__key__").values()):
        np.testing.assert_array_equal(row["out"], np.full((3, 1, 1), 2.0 * number))


def greys(path: Path, keys: list[str]) -> bytes:
    """A tar of pictures of one pixel each, as bright as their number; a kibibyte for each."""
    with tarfile.open(path, "w") as archive:
        for number, key in enumerate(keys):
            file = io.BytesIO()
            Image.new("RGB", (1, 1), (number,) * 3).save(file, "png")
            info = tarfile.TarInfo(f"{key}.png")
            info.size = file.tell()
            file.seek(0)
            archive.addfile(info, file)
    return path.read_bytes()


@pytest.mark.device
def test_suspect_rows_that_the_source_lost(
    suspect: tuple[Path, list[str]], net: Path, tmp_path: Path
) -> None:
    folder, names = suspect
    values = vectors(COUNT)
    kept = [n for n in range(COUNT) if f"r{n}" != names[0]]
    table(tmp_path / "t.parquet", values[kept], [f"r{n}" for n in kept])
    with pytest.raises(
        VknnError, match=f"1 suspect records are not in the source now: '{names[0]}'"
    ):
        run(tmp_path / "t.parquet", net, folder, redo_suspect=True, device="numpy")
    assert (folder / "_vknn" / "suspect.parquet").exists()


@pytest.mark.device
def test_a_right_device_is_checked_and_agrees(tmp_path: Path) -> None:
    values = vectors(200)
    source = table(tmp_path / "t.parquet", values)
    share = share_of("1/16", "check")
    sampled = {n for n in range(200) if n == 0 or is_sampled(f"r{n}", share)}
    report = run(source, write_net(tmp_path), tmp_path / "out", check="1/16")
    (device,) = report.devices.values()
    assert device.checks == len(sampled) and device.largest_error <= 1 and device.retired is None
    assert document(tmp_path / "out")["report"]["suspects"] == 0


def test_samples() -> None:
    names = [f"pictures/{number}.jpg" for number in range(20_000)]
    for text in ("1/1000", "0.1%", "1/10"):
        share = share_of(text, "check")
        count = sum(is_sampled(name, share) for name in names)
        assert 0.7 * share * 20_000 < count < 1.3 * share * 20_000
    assert all(is_sampled(name, share_of(1, "check")) for name in names[:100])
    assert not any(is_sampled(name, share_of(0, "check")) for name in names)
    assert not is_sampled("a", None)
    is_sampled("caf\udce9", share_of("1/2", "check"))  # a name that is no text


@pytest.mark.parametrize(
    "given", ["2/1", "-1%", "often", "1/0", True, 1.5, "1e-99999999", "1e-999_999_999%"]
)
def test_shares_that_are_none(given: Any) -> None:
    with pytest.raises(vknn.InputError, match="is no share: write it as 1/1000, 0.1% or 0.001"):
        scale.Predictor("net.param", check=given)


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Streams that lose their device at these results, counted over all of them."""
    losses: list[int] = []
    seen = iter(range(1 << 30))
    stream = vknn.Session.stream

    def lost(self: vknn.Session, inputs: Any, *arguments: Any, **options: Any) -> Any:
        for found in stream(self, inputs, *arguments, **options):
            if next(seen) in losses:
                raise DeviceLostError("vkWaitForFences: VK_ERROR_DEVICE_LOST")
            yield found

    monkeypatch.setattr(vknn.Session, "stream", lost)
    return losses


def test_a_device_that_is_lost_once(lossy: list[int], tmp_path: Path) -> None:
    values = vectors(40)
    lossy.append(17)
    source = table(tmp_path / "t.parquet", values)
    report = job(source, write_net(tmp_path), tmp_path / "out", id="id", batch_size=4, stacked=1)
    assert report.state == "done" and not report.errors
    for number, row in enumerate(answers(tmp_path / "out")):
        np.testing.assert_array_equal(row["out"], np.square(values[number]))


def test_a_device_that_is_lost_again(lossy: list[int], tmp_path: Path) -> None:
    values = vectors(40)
    lossy += [17, 30]
    source = table(tmp_path / "t.parquet", values)
    with pytest.raises(DeviceLostError):
        job(source, write_net(tmp_path), tmp_path / "out", id="id", batch_size=4, stacked=1)
    assert document(tmp_path / "out")["state"] == "stopped"
    count = len(by_id(tmp_path / "out"))
    assert 16 <= count < 40, "what was computed is written"
    assert (
        job(source, write_net(tmp_path), tmp_path / "out", id="id", stacked=1).new_rows
        == 40 - count
    )
    assert len(by_id(tmp_path / "out")) == 40


def test_a_device_that_is_lost_among_bad_records(lossy: list[int], tmp_path: Path) -> None:
    """Records that cannot be read keep their places."""
    values = vectors(40)
    data = [None if n % 3 == 1 else list(v) for n, v in enumerate(values)]
    pq.write_table(
        pa.table({"id": list(range(40)), "data": pa.array(data, pa.list_(pa.float32()))}),
        tmp_path / "t.parquet",
    )
    lossy.append(9)
    report = job(
        tmp_path / "t.parquet",
        write_net(tmp_path),
        tmp_path / "out",
        id="id",
        batch_size=4,
        stacked=1,
    )
    assert report.error_count == 13
    for number, row in by_id(tmp_path / "out").items():
        assert (row["error"] is not None) == (number % 3 == 1)
        if row["error"] is None:
            np.testing.assert_array_equal(row["out"], np.square(values[number]))


@pytest.mark.device
def test_checks_of_a_device(net: Path) -> None:
    predictor = scale.Predictor(net, device="vulkan")
    checker = checking.Checker(predictor)
    with vknn.Session(net, device="vulkan") as session:
        small, large = ({"data": np.float32([v, 0, 0, 0])} for v in (1, 60))
        assert checker.check(session, small, session.run(small)).ok
        found = checker.check(session, large, session.run(large))
        assert not found.ok and found.error > 1 and "Wrong 'out'" in found.text
    checker.close()
    checker.close()
