"""Sources: what folders, patterns, lists and addresses hold, and what is refused."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.scale.jobs import (
    answers,
    by_id,
    job,
    picture_net,
    pictures,
    png,
    table,
    vectors,
    write_net,
)

from vknn.errors import InputError
from vknn.scale.folder import Folder
from vknn.scale.options import Predictor
from vknn.scale.reading import read
from vknn.scale.same_job import document_of
from vknn.scale.sources import RecordSource, _escaped, find_source, place_of, without_secret
from vknn.scale.survey import surveyed

pytest.importorskip("PIL")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Pictures in a folder, in one below it, and what does not count."""
    folder = tmp_path / "tree"
    pictures(folder, 2)
    pictures(folder / "below" / "deep", 1)
    pictures(folder / ".hidden", 1)
    (folder / ".dot.png").write_bytes(png())
    (folder / "readme.txt").write_text("no picture")
    return folder


def names(source: object, folder: Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in find_source(source).paths]  # type: ignore[arg-type]


def test_a_folder_with_all_below_it(tree: Path) -> None:
    found = find_source(tree)
    assert names(tree, tree) == ["0000.png", "0001.png", "below/deep/0000.png"]
    assert found.kind == "pictures" and found.id == "path"
    assert found.sizes == tuple(os.path.getsize(path) for path in found.paths)


def test_names_with_an_underscore_are_cameras_names_as_well(tmp_path: Path) -> None:
    """Beside tables they are of what programs keep there."""
    pictures(tmp_path / "in" / "_day", 1)[0].rename(tmp_path / "in" / "_DSC0001.png")
    pictures(tmp_path / "in" / "_day", 1)
    assert names(tmp_path / "in", tmp_path / "in") == ["_DSC0001.png", "_day/0000.png"]
    (tmp_path / "tables" / "_vknn").mkdir(parents=True)
    for name in ("a", "_a", "_vknn/suspect"):
        table(tmp_path / "tables" / f"{name}.parquet", vectors(1))
    assert names(tmp_path / "tables", tmp_path / "tables") == ["a.parquet"]


def test_links_to_folders_are_gone_into(tmp_path: Path) -> None:
    """As sets of pictures are put together by them; what leads round is read once."""
    pictures(tmp_path / "elsewhere" / "deep", 2)
    (tmp_path / "in" / "below").mkdir(parents=True)
    (tmp_path / "in" / "class").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "below" / "up").symlink_to(tmp_path / "in")
    (tmp_path / "elsewhere" / "self").symlink_to(tmp_path / "elsewhere")
    assert names(tmp_path / "in", tmp_path / "in") == [
        "class/deep/0000.png", "class/deep/0001.png",
    ]  # fmt: skip
    assert len(find_source(str(tmp_path / "in" / "**" / "*.png")).paths) == 2


def test_files_that_are_no_records_are_said(tree: Path, tmp_path: Path) -> None:
    (tree / "labels.h5").write_bytes(b"\x89HDF\r\n")  # which Pillow knows, and does not read
    report = job(tree, picture_net(tmp_path), tmp_path / "out")
    assert report.rows == 3 and not report.errors
    told = "{} files are no record by the ending of the name, or no plain file, such as 'labels.h5'"
    assert told.format(2) in report.notes
    assert job(str(tree / "*.png"), picture_net(tmp_path), tmp_path / "some").notes == []


def test_patterns_and_lists(tree: Path) -> None:
    assert names(str(tree / "*.png"), tree) == ["0000.png", "0001.png"]
    assert names(str(tree / "*" / "*" / "*.png"), tree) == ["below/deep/0000.png"]
    assert names([tree / "0001.png", str(tree / "below")], tree) == [
        "0001.png", "below/deep/0000.png",
    ]  # fmt: skip
    twice = [tree / "0001.png", tree, str(tree / "*.png")]
    assert len(find_source(twice).paths) == 3, "each file counts once"


def test_a_file_by_several_names_is_one_record(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of its names is its id."""
    monkeypatch.chdir(tree)
    given = ["below", "./below", str(tree / "below"), "0000.png", "below/../0000.png"]
    assert find_source(given).paths == ("0000.png", "below/deep/0000.png")


def test_a_name_with_the_letters_of_patterns(tmp_path: Path) -> None:
    path = tmp_path / "a[1].png"
    path.write_bytes(png())
    assert find_source(path).paths == (str(path),)


def test_a_name_with_a_colon_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pictures(Path("night:1"), 2)
    assert find_source("night:1").paths == ("night:1/0000.png", "night:1/0001.png")


def test_addresses(tree: Path, tmp_path: Path) -> None:
    found = find_source(tree.as_uri())
    assert [os.path.relpath(path, tree) for path in found.paths] == names(tree, tree)
    some = find_source(f"{tree.as_uri()}/00*.png")
    assert [os.path.basename(path) for path in some.paths] == ["0000.png", "0001.png"]


@pytest.mark.parametrize("name", ["my pictures", "b\u00fccher", "a[1]", "what?", "a#b", "{x}|^`"])
def test_names_that_addresses_have_no_letters_for(name: str, tmp_path: Path) -> None:
    pictures(tmp_path / name, 2)
    for address in (f"file://{tmp_path}/{name}", (tmp_path / name).as_uri()):
        found = find_source(address)
        assert found.paths == tuple(str(tmp_path / name / f"000{n}.png") for n in (0, 1))
    if name != "what?":
        assert place_of(f"file://{tmp_path}/{name}/000[01].png")[1].endswith("/000[01].png")


def test_options_of_addresses_are_left_alone() -> None:
    address = "s3://bucket/my [1]/%20?endpoint_override=[::1]:80&scheme=http"
    assert _escaped(address) == (
        "s3://bucket/my%20%5B1%5D/%20?endpoint_override=[::1]:80&scheme=http"
    )
    assert _escaped("s3://[::1]/a") == "s3://[::1]/a"
    assert _escaped("s3://bucket?region=a") == "s3://bucket?region=a"


def test_secrets_of_addresses_are_not_kept(tmp_path: Path) -> None:
    """job.json names source and answers, and lies where others read."""
    given = "s3://KEY:SE+CRET@bucket/a@b?endpoint_override=here:80"
    kept = "s3://bucket/a@b?endpoint_override=here:80"
    assert without_secret(given) == kept == without_secret(kept)
    assert without_secret("folder//a@b") == "folder//a@b"
    address = "s3://KEY:SECRET@bucket/in?region=us-east-1"
    folder = Folder(address.replace("in?", "out?"))
    source = RecordSource("pictures", (address,), (), (), folder.filesystem)
    said = document_of(Predictor(write_net(tmp_path)), source, folder)
    assert folder.text == "s3://bucket/out?region=us-east-1" and "SECRET" not in str(said)
    assert said["source"] == ["s3://bucket/in?region=us-east-1"]


def test_a_filesystem_that_is_not_this_machines(tree: Path) -> None:
    """As of a bucket: what pyarrow.fs lists, with the same rules for names."""
    from pyarrow import fs

    from vknn.scale import sources

    place = fs.SubTreeFileSystem(str(tree), fs.LocalFileSystem())
    aside: list[str] = []

    def found(path: str) -> list[str]:
        return sorted(sources._files(place, path, "bucket", aside))

    assert found("") == ["0000.png", "0001.png", "below/deep/0000.png"] and len(aside) == 1
    assert found("00*.png") == ["0000.png", "0001.png"]
    assert found("0001.png") == ["0001.png"]
    with pytest.raises(InputError, match="there are no pictures"):
        found("*.jpg")
    with pytest.raises(InputError, match="cannot be listed"):
        found("nowhere")


@pytest.mark.parametrize(
    "pattern",
    [
        "*.png",
        "**/*.png",
        "*/*.png",
        "below/**",
        "**/deep/*",
        "?.png",
        "a[1].png",
        "[!0]*.png",
        ".*",
    ],
)
def test_patterns_mean_the_same_elsewhere(pattern: str, tree: Path) -> None:
    """As glob has them: an asterisk ends at slashes, two may mean no folder, dots are hidden."""
    from pyarrow import fs

    from vknn.scale import sources

    for name in ("a[1].png", "a1.png", "b.png", ".hidden.png", "below/e.png", "below/.c/d.png"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(png())
    place = fs.SubTreeFileSystem(str(tree), fs.LocalFileSystem())
    found = sorted(sources._files(place, pattern, "bucket", []))
    assert found == names(str(tree / pattern), tree) != []


@pytest.mark.parametrize(
    "given, text",
    [
        ("nowhere", "nowhere: no such file or folder"),
        ("*.jpg", "there are no pictures"),
        ("tree/readme.txt", "is no picture, .parquet"),
        ("empty", "there are no pictures"),
        ("texts", "there are no pictures"),
        ([], "the source is an empty list"),
        (["a.png", ""], "a source has no name"),
        (["tree", "t.parquet"], "holds parquet and pictures: a job reads files of one kind"),
        ("mixed", "holds arrays and pictures"),
        ("nosuch://bucket/x", "nosuch://bucket/x cannot be opened"),
    ],
)
def test_what_is_refused(
    given: object, text: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.parquet", vectors(1))
    for name in ("empty", "texts", "mixed"):
        (tmp_path / name).mkdir()
    (tmp_path / "texts" / "a.txt").write_text("a")
    pictures(tmp_path / "mixed", 1)
    np.save(tmp_path / "mixed" / "a.npy", vectors(1))
    with pytest.raises(InputError, match=text):
        find_source(given)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    """Nothing waits for somebody to write into it; in a folder it is left out."""
    pictures(tmp_path, 1)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="pipe.png is neither a file nor a folder"):
        find_source(tmp_path / "pipe.png")
    assert len(find_source(tmp_path).paths) == 1


def test_two_filesystems_in_a_list(tree: Path) -> None:
    with pytest.raises(InputError, match="lies elsewhere than"):
        find_source([str(tree), "s3://bucket/more?region=x"])


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "tree")
    pictures(tmp_path / "tree", 1)
    with open(path + b"/caf\xe9.png", "wb") as file:
        file.write(png())
    with pytest.raises(InputError, match=r"caf.*: its name is no text \(UTF-8\)"):
        find_source(tmp_path / "tree")


def test_a_folder_that_cannot_be_listed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pictures would be left out without a word."""
    scandir = os.scandir

    def refused(path: str) -> object:
        if os.path.basename(path) == "deep":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(InputError, match="deep cannot be listed: Permission denied"):
        find_source(tree)


def test_a_link_to_nothing_has_a_row(tree: Path, tmp_path: Path) -> None:
    (tree / "gone.png").symlink_to(tmp_path / "nowhere.png")
    report = job(tree, picture_net(tmp_path), tmp_path / "out")
    assert report.rows == 4 and report.errors == {"InputError": 1}
    row = by_id(tmp_path / "out", "path")[str(tree / "gone.png")]
    assert "cannot be read" in row["error"]["message"] and row["out"] is None


def test_a_picture_that_went_away_has_a_row(tree: Path, tmp_path: Path) -> None:
    from vknn.scale.reading import read

    source = find_source(tree)
    (tree / "0001.png").unlink()
    (rows,) = read(source, ["path", "bytes"], 8)
    assert len(rows) == 3 and list(rows.errors) == [1]
    assert "0001.png cannot be read" in str(rows.errors[1])


def test_counts(tree: Path, tmp_path: Path) -> None:
    assert surveyed(find_source(tree), "path", ["path"]).count == 3
    found = find_source(table(tmp_path / "t.parquet", vectors(7)))
    assert [surveyed(found, name, []).count for name in (None, "id")] == [7, 7]


@pytest.mark.parametrize("inside", ["", "answers", "below/answers"])
def test_answers_do_not_go_into_the_source(tree: Path, tmp_path: Path, inside: str) -> None:
    """A second run would read them."""
    with pytest.raises(InputError, match="lies in the source"):
        job(tree, picture_net(tmp_path), tree / inside)
    assert not list(tree.rglob("*.parquet"))
    out = tree / (inside or "answers")
    job(str(tree / "*.png"), picture_net(tmp_path), out)  # which that pattern does not mean
    assert len(answers(out)) == 2


def test_a_pattern_that_means_answers_as_well(tmp_path: Path) -> None:
    """They were records of the second run."""
    table(tmp_path / "t.parquet", vectors(3))
    net, pattern = write_net(tmp_path), str(tmp_path / "**" / "*.parquet")
    for new in (3, 0):
        report = job(pattern, net, tmp_path / "below" / "out", id="id")
        assert (report.rows, report.new_rows) == (3, new)
    with pytest.raises(InputError, match="holds the answers' own files: give another folder"):
        job(str(tmp_path / "below" / "*" / "*.parquet"), net, tmp_path / "below" / "out", id="id")


def test_answers_and_sources_of_one_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses with options have a question mark, and are no patterns for that."""
    from pyarrow import fs

    from vknn.scale import sources

    place = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())

    def place_of(text: str) -> tuple[fs.FileSystem, str]:
        return place, text.removeprefix("s3://").partition("?")[0]

    monkeypatch.setattr(sources, "place_of", place_of)
    for name in ("in/a", "in/out/b", "in/out_of/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        table(tmp_path / f"{name}.parquet", vectors(1))
    found = find_source("s3://in?region=here")
    for path in ("in", "in/out"):
        with pytest.raises(InputError, match="lies in the source s3://in"):
            sources.check_apart(found, place, path, "the output")
    sources.check_apart(found, place, "other", "the output")
    some = find_source("s3://in/**/*.parquet?region=here")
    sources.check_apart(some, place, "in/out", "the output")
    left = sources.without_answers(some, place, "in/out").paths
    assert left == ("in/a.parquet", "in/out_of/c.parquet")


@pytest.mark.parametrize("kind", ["pictures", "parquet", "npy", "npz", "tar"])
def test_relative_names_mean_the_same_in_every_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of a cluster work in folders of their own; ids stay as they are given."""
    monkeypatch.chdir(tmp_path)
    values = vectors(2)
    if kind == "pictures":
        pictures(Path("in"), 2)
    elif kind == "tar":
        with tarfile.open("rows.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("a.txt"))
    elif kind == "parquet":
        table(Path("rows.parquet"), values)
    else:
        np.save("rows.npy", values) if kind == "npy" else np.savez("rows.npz", data=values)
    source = find_source("in" if kind == "pictures" else f"rows.{kind}")
    folder = Folder("out")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    data = {"pictures": ["bytes"], "tar": []}.get(kind, ["data"])
    columns = [source.id or "id", *data]
    (rows,) = read(source, columns, 10)
    assert len(rows) == (1 if kind == "tar" else 2) and not rows.errors
    first = rows.table.column(0)[0].as_py()
    wanted = {"pictures": "in/0000.png", "parquet": "r0", "tar": "a"}
    assert first == wanted.get(kind, f"rows.{kind}#0")
    folder.create()
    assert (tmp_path / "out" / "_vknn").is_dir() and not list(Path.cwd().iterdir())


def test_pictures_of_a_large_row_group_are_read_one_after_another(tmp_path: Path) -> None:
    """Arrow would hold the group, which may be of gigabytes."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    random, path = np.random.default_rng(0), tmp_path / "t.parquet"
    data = [random.bytes(100_000) for _ in range(320)]
    rows = pa.table({"id": list(range(320)), "image": data})
    pq.write_table(rows, path, row_group_size=320, write_batch_size=8, use_dictionary=False)
    del rows
    before = pa.total_allocated_bytes()
    most, found = 0, []
    for some in read(find_source(path), ["id", "image"], 32):
        most = max(most, pa.total_allocated_bytes() - before)
        found += some.table.column("image").to_pylist()
    assert found == data
    assert most < 12 << 20, "of 32 MB"
