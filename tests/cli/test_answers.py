"""Answers on the command line: drawn, and as JSON."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.table import Table
from tests.cli.test_cli import run

from vknn.cli.output import show

Image = pytest.importorskip("PIL.Image")
DATA = Path(__file__).parents[2] / "examples" / "data"
RECIPE = {
    "task": "detection",
    "input": {"std": [255]},
    "decode": {"kind": "rows", "rows": "found"},
    "labels": "squares.txt",
}
#: Label, and left, top, right and bottom of the squares in the picture.
SQUARES = {
    ("red", 0, 16, 16, 32), ("green", 48, 0, 64, 16), ("blue", 16, 48, 32, 64),
    ("red", 80, 48, 96, 64),
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The example's detector of coloured squares, with a recipe beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("squares.param", "squares.bin", "squares.png", "squares.txt"):
        shutil.copy(DATA / name, folder / name)
    (folder / "squares.recipe.json").write_text(json.dumps(RECIPE))
    return folder / "squares.param"


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def squares(answer: dict[str, Any]) -> set[tuple[Any, ...]]:
    return {(thing["label"], *map(round, thing["box"])) for thing in answer["found"]}


def test_draw_a_file(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    picture, target = model.with_name("squares.png"), tmp_path / "out.png"
    argv = ("run", model, picture, "--device", "cpu", "--draw", target)
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "")
    assert out.startswith(f"{picture}: ")
    assert "red 1.00 at 0,16,16,32" in out
    before = Image.open(picture)
    with Image.open(target) as drawn:
        assert drawn.width * before.height == drawn.height * before.width
        factor = drawn.width // before.width
        large = np.asarray(before.convert("RGB").resize(drawn.size, Image.Resampling.NEAREST))
        changed = (np.asarray(drawn) != large).any(axis=2)
    assert factor > 1
    assert changed[16 * factor : 32 * factor, 16 * factor - 1].all()  # the right side of a box
    assert not changed[36 * factor : 46 * factor, 36 * factor : 46 * factor].any()
    code, out, _ = run(capsys, *argv, "--json")
    (found,) = lines(out)
    assert (found["file"], found["drawn"], found["recipe"]) == (
        str(picture), str(target), "squares",
    )  # fmt: skip
    assert found["answer"]["picture"] == [96, 64]
    assert squares(found["answer"]) == SQUARES


def test_boxes_are_in_pixels_of_the_original(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large.png"
    with Image.open(DATA / "squares.png") as picture:
        picture.resize((288, 128), Image.Resampling.NEAREST).save(large)
    argv = ("run", model, large, "--device", "cpu", "--json")
    code, out, _ = run(capsys, *argv)
    assert code == 0
    (found,) = lines(out)
    assert squares(found["answer"]) == {
        (name, 3 * left, 2 * top, 3 * right, 2 * bottom)
        for name, left, top, right, bottom in SQUARES
    }
    assert "drawn" not in found


def test_draw_a_folder(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    pictures, target = tmp_path / "pictures", tmp_path / "drawn" / "here"
    (pictures / "more").mkdir(parents=True)
    frames = [Image.new("RGB", (96, 64), (200 * n, 0, 0)) for n in range(2)]
    frames[0].save(pictures / "moving.gif", save_all=True, append_images=frames[1:])
    shutil.copy(DATA / "squares.png", pictures / "squares.png")
    shutil.copy(DATA / "squares.png", pictures / "more" / "squares.png")
    argv = ("run", model, pictures, pictures / "more", "--device", "cpu", "--json")
    code, out, err = run(capsys, *argv, "--draw", target)
    assert (code, err) == (0, "")
    names = [Path(found["drawn"]).name for found in lines(out)]
    assert names == ["moving-00000.png", "moving-00001.png", "squares.png", "squares-2.png"]
    assert {path.name for path in target.iterdir()} == set(names)
    assert [len(found["answer"]["found"]) > 0 for found in lines(out)] == [False, True, True, True]


def test_threshold_labels_and_options_of_ones_own(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    picture, labels = model.with_name("squares.png"), tmp_path / "names.txt"
    labels.write_text("nothing\nrot\n")
    argv = ("run", model, picture, "--device", "cpu", "--json")
    _, out, _ = run(capsys, *argv, "--labels", labels)
    assert {thing["label"] for thing in lines(out)[0]["answer"]["found"]} == {"rot", None}
    _, out, _ = run(capsys, *argv, "--threshold", "1.1")
    assert lines(out)[0]["answer"]["found"] == []
    _, out, _ = run(capsys, *argv, "--std", "1e6")  # darker than anything that is found
    assert lines(out)[0]["answer"]["found"] == []


def test_recipes_given_and_switched_off(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    picture = model.with_name("squares.png")
    argv = ("run", model, picture, "--device", "cpu", "--json")
    _, out, _ = run(capsys, *argv, "--recipe", "none")
    assert set(lines(out)[0]) == {"file", "outputs"}
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**RECIPE, "labels": ["nothing", "a"]}))
    _, out, _ = run(capsys, *argv, "--recipe", other)
    assert lines(out)[0]["recipe"] == "other"
    assert {thing["label"] for thing in lines(out)[0]["answer"]["found"]} == {"a", None}
    wrong = {"kind": "rows", "rows": "fund"}
    other.write_text(json.dumps({**RECIPE, "labels": [], "decode": wrong}))
    code, _, err = run(capsys, *argv, "--recipe", other)
    assert (code, "wants an output 'fund'; the model has found" in err) == (2, True)


def test_one_run_with_tables(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    picture = model.with_name("squares.png")
    target = model.with_name("drawn.jpg")
    argv = ("run", model, "--input", f"data={picture}", "--device", "cpu", "--draw", target)
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "")
    assert "squares: " in out
    assert target.exists()
    _, out, _ = run(capsys, *argv, "--json")
    found = json.loads(out)
    assert squares(found["answer"]) == SQUARES
    assert {"device", "seconds", "outputs", "recipe", "drawn"} <= set(found)


ERRORS = [
    (["a.png", "a.png", "--draw", "out.png"], "is one file and there are 2: give it a folder"),
    (["a.png", "--draw", "out.xyz"], "Pillow writes no such pictures"),
    (["a.png", "--draw", "out.pdf"], "Pillow writes no such pictures"),
    (["a.png", "--draw", "a.png"], "would write over the picture"),
    (["a.png", "--draw", "."], "would write over the picture"),
    (["a.png", "--draw", "none/out.png"], "none/out.png: No such file"),
    (["a.png", "--draw", "o.png", "--recipe", "none"], "nothing says what the outputs (found)"),
    (["a.png", "--recipe", "none.json"], "none.json: no such file"),
    (["a.npy", "--draw", "o.png"], "--draw draws on pictures"),
    (["moving.gif", "--draw", "o.png"], "has several frames and --draw o.png is one file"),
    (["a.png", "--draw", "o.png", "--font", "a.npy"], "a.npy cannot be read as a font"),
    (["a.png", "--labels", "none.txt"], "none.txt: no such file"),
]


@pytest.mark.parametrize("argv, problem", ERRORS, ids=range(len(ERRORS)))
def test_errors(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path, argv: list[str],
    problem: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    shutil.copy(DATA / "squares.png", "a.png")
    before = Path("a.png").read_bytes()
    np.save("a.npy", np.zeros((3, 64, 96), np.float32))
    frames = [Image.new("RGB", (9, 9), (200 * n, 0, 0)) for n in range(2)]
    frames[0].save("moving.gif", save_all=True, append_images=frames[1:])
    code, _, err = run(capsys, "run", model, *argv, "--device", "cpu")
    assert code == 2
    assert problem in err
    assert len(err.splitlines()) == 1
    assert Path("a.png").read_bytes() == before
    assert not Path("o.png").exists()


def test_a_recipe_of_vknns_own_that_does_not_fit_is_left_aside(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A softmax over a map is no classifier, which its shape tells once it has run."""
    model, picture = tmp_path / "net.param", tmp_path / "a.png"
    model.write_text("7767517\n2 2\nInput data 0 1 data\nSoftmax s 1 1 data out 0=0\n")
    model.with_suffix(".bin").write_bytes(b"")
    Image.new("RGB", (4, 3)).save(picture)
    argv = ("run", model, picture, "--device", "cpu")
    code, out, _ = run(capsys, *argv)
    assert (code, out.startswith(f"{picture}: out float32[3, 3, 4]")) == (0, True)
    code, _, err = run(capsys, *argv, "--draw", tmp_path / "o.png")
    assert (code, "output 'out' has the shape" in err) == (2, True)


@pytest.mark.parametrize("name", ["out.png", "out.npz"])
def test_a_full_disk_leaves_no_part_of_a_file(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resource = pytest.importorskip("resource")  # files that may not grow, as on a full disk
    target = tmp_path / "results" / name
    target.parent.mkdir()
    option = "--draw" if target.suffix == ".png" else "--output"
    picture = f"data={model.with_name('squares.png')}"
    argv = ("run", model, "--input", picture, "--device", "numpy", option, target)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        code, _, err = run(capsys, *argv)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert code == 2
    assert str(target) in err
    assert list(target.parent.iterdir()) == []


@pytest.mark.host
@pytest.mark.parametrize("text", ["a[b].npz", "[/foo]: 0.5", "[bold]x[/bold]"])
def test_brackets_of_names_are_no_markup(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(text)
    show(Table(text, title=text))
    assert capsys.readouterr().out.count(text) == 3
