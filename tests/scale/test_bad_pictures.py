"""Pictures that are none, or not as others are: rows with errors, and neighbours that are right."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.scale.jobs import answers, batch, by_id, job, picture_net, pictures, png, read_picture

import vknn
from vknn.scale import JobError

Image = pytest.importorskip("PIL.Image")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def huge() -> bytes:
    """A PNG of 30,000 x 30,000 pixels in a few bytes: its header, and the first of its rows."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(bytes(90_001)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def saved(image: object, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)  # type: ignore[attr-defined]
    return file.getvalue()


def gray16() -> bytes:
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    return saved(Image.fromarray(values), "png")


def animated() -> bytes:
    frames = [Image.new("RGB", (8, 8), (80 * number, 0, 0)) for number in range(3)]
    return saved(frames[0], "gif", save_all=True, append_images=frames[1:])


#: Name of the file -> its bytes, and what its error says; None: it is a picture.
FILES = {
    "a-empty.png": (b"", "0 bytes"),
    "b-cut.png": (png(1, (64, 64))[:3000], "picture"),
    "c-cut.jpg": (saved(Image.effect_noise((64, 64), 50), "jpeg")[:600], "picture"),
    "d-huge.png": (huge(), "900000000 pixels"),
    "e-text.png": (b"not a picture at all", "picture"),
    "f-cmyk.jpg": (saved(Image.new("CMYK", (8, 8), (9, 9, 9, 9)), "jpeg"), None),
    "g-16bit.png": (gray16(), None),
    "h-animated.gif": (animated(), "several pictures"),
    "i-palette.png": (saved(Image.new("P", (8, 8)), "png"), None),
    "j-alpha.png": (png(2, mode="RGBA"), None),
}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "mixed"
    pictures(folder, 3)
    for name, (data, _) in FILES.items():
        (folder / name).write_bytes(data)
    for number in range(3):
        (folder / f"z{number}.png").write_bytes(png(number))
    return folder


def test_rows_of_all(mixed: Path, tmp_path: Path) -> None:
    model = picture_net(tmp_path)
    options = {"size": (8, 8)}  # of files of several sizes
    report = job(mixed, model, tmp_path / "out", **options)
    rows = {Path(key).name: row for key, row in by_id(tmp_path / "out", "path").items()}
    wrong = {name for name, (_, text) in FILES.items() if text is not None}
    assert {name for name, row in rows.items() if row["error"] is not None} == wrong
    assert len(rows) == report.rows == len(FILES) + 6 and report.error_count == len(wrong)
    for name in wrong:
        error = rows[name]["error"]
        text = FILES[name][1]
        assert text is not None and text in error["message"], (name, error)
        assert error["attempts"] == 1 and error["type"].endswith("Error")
        assert rows[name]["out"] is rows[name]["label"] is rows[name]["probability"] is None
    for number in range(3):
        np.testing.assert_array_equal(
            rows[f"z{number}.png"]["out"], rows[f"{number:04}.png"]["out"]
        )


def test_pictures_of_other_kinds_are_as_in_sessions(mixed: Path, tmp_path: Path) -> None:
    model = picture_net(tmp_path)
    job(mixed, model, tmp_path / "out", size=(8, 8))
    rows = {Path(key).name: row for key, row in by_id(tmp_path / "out", "path").items()}
    with vknn.Session(model, device="numpy") as session:
        for name in ("f-cmyk.jpg", "g-16bit.png", "i-palette.png", "0001.png"):
            array = read_picture(mixed / name, (8, 8))
            np.testing.assert_array_equal(session.run({"data": array})["out"], rows[name]["out"])


def test_only_bad_ones(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.png").write_bytes(b"x")
    report = job(folder, picture_net(tmp_path), tmp_path / "out")
    assert report.state == "done" and report.errors == {"UnreadableFileError": 3}
    assert "no record could be computed; the first: record '" in report.notes[0]
    assert [set(row) for row in answers(tmp_path / "out")] == [
        {"path", "device", "batch", "error"}
    ] * 3
    pictures(folder, 2)  # now there are good ones, which have outputs
    again = job(folder, picture_net(tmp_path), tmp_path / "out")
    assert again.new_rows == 2 and len(by_id(tmp_path / "out", "path")) == 5
    good = [row for row in answers(tmp_path / "out") if row["error"] is None]
    assert len(good) == 2 and all(np.size(row["out"]) == 5 for row in good)


@pytest.mark.parametrize("bound, most", [("0", 0), (2, 2), ("25%", 2), ("1/4", 2), ("0.25", 2)])
def test_bounds(bound: object, most: int, tmp_path: Path) -> None:
    """Of eight pictures three are broken."""
    pictures(tmp_path / "in", 8)
    for number in (1, 4, 6):
        (tmp_path / "in" / f"{number:04}.png").write_bytes(b"broken")
    model = picture_net(tmp_path)
    with pytest.raises(JobError, match=f"{most + 1} of .* could not be computed") as raised:
        job(tmp_path / "in", model, tmp_path / "out", errors=bound, batch_size=1)
    last = tmp_path / "in" / f"{(1, 4, 6)[most]:04}.png"
    assert f"that can be read (record {str(last)!r})" in str(raised.value)
    report = raised.value.report
    assert report is not None and report.state == "stopped" and report.error_count == most + 1
    written = by_id(tmp_path / "out", "path")
    assert len(written) == report.rows < 8, "what was computed is there"
    with pytest.raises(JobError):
        job(tmp_path / "in", model, tmp_path / "out", errors=bound, batch_size=1)
    again = job(tmp_path / "in", model, tmp_path / "out", errors=3, batch_size=1)
    assert again.state == "done" and again.rows == 8 and again.error_count == 3
    assert again.new_rows <= 8 - len(written)
    assert len(by_id(tmp_path / "out", "path")) == 8
    with pytest.raises(JobError, match="3 of 8"):  # nothing is left, and there are too many still
        job(tmp_path / "in", model, tmp_path / "out", errors=bound)


@pytest.mark.parametrize("bound", ["-1", "1.5", "many", "200%", "1/0", True, -3, 1.0])
def test_bounds_that_are_none(bound: object, tmp_path: Path) -> None:
    pictures(tmp_path / "in", 1)
    with pytest.raises(vknn.InputError, match="errors="):
        job(tmp_path / "in", picture_net(tmp_path), tmp_path / "out", errors=bound)


def test_exit_codes_of_bounds(tmp_path: Path) -> None:
    pictures(tmp_path / "in", 3)
    (tmp_path / "in" / "0001.png").write_bytes(b"")
    model = picture_net(tmp_path)
    words = (model, tmp_path / "in", "--output", tmp_path / "out")
    stopped = batch(*words, "--errors", "0")
    assert stopped.returncode == 1
    assert "error: 1 of 3 records could not be computed, and errors=0 are allowed" in stopped.stderr
    assert "stopped, 3 rows" in stopped.stdout
    done = batch(*words, "--errors", "1")
    assert done.returncode == 0 and "done, 3 rows, 0 of them now" in done.stdout
    assert "errors: 1 InputError" in done.stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_in_a_folder_are_said(tmp_path: Path) -> None:
    """They are not read, which would wait for ever."""
    pictures(tmp_path / "in", 3)
    for name in ("a.png", ".b.png"):
        os.mkfifo(tmp_path / "in" / name)
    report = job(tmp_path / "in", picture_net(tmp_path), tmp_path / "out")
    assert report.rows == 3
    assert any("no plain file, such as 'a.png'" in note for note in report.notes)
