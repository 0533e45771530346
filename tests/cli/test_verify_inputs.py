"""``vknn verify`` with metrics, over many inputs, and as a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_layer import SHAPE, write_faulty_model
from tests.small_model import SHAPE as SMALL
from tests.small_model import write_small_model

from vknn.cli import main


def run(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0) -> str:
    found = main(["verify", *map(str, argv)])
    out, err = capsys.readouterr()
    assert found == code, (out, err)
    return out + err


def run_json(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0) -> Any:
    return json.loads(run(capsys, *argv, "--json", code=code))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("small"))


def arrays(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.device
def test_metrics(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "channel")
    (tmp_path / "own.py").write_text("def bias(a, b):\n    return (a - b).mean()\n")
    own = f"{tmp_path / 'own.py'}:bias"
    text = run(capsys, model, "--metrics", "--metric", own, "--failures", code=1)
    assert "channel 3" in text and "SNR dB" in text
    found = run_json(capsys, model, "--metric", own, code=1)
    (wrong,) = (r for r in found["rows"] if r["op"] == "FaultyHalf")
    metrics = wrong["isolated"]["metrics"]
    assert metrics["where"] == "channel 3"
    assert own in metrics["own"]
    assert set(metrics) == {
        "elements", "absolute", "of_limit", "ulps", "cosine", "snr_db", "over", "first", "where",
        "not_finite", "channels", "places", "histogram", "own",
    }  # fmt: skip
    assert "metrics" not in run_json(capsys, model, code=1)["rows"][0]["isolated"]


@pytest.mark.device
def test_a_folder_of_arrays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    np.save(folder / "a.npy", arrays(*SMALL))
    np.save(folder / "b.npy", arrays(3, *SMALL))
    np.savez(folder / "c.npz", data=arrays(2, *SMALL))
    (folder / "torn.npz").write_text("text")
    (folder / "torn.png").write_text("text")
    found = run_json(capsys, model, "--input", folder, "--limit", 500)
    assert found["ok"] and found["records"] == 6
    assert [Path(b["record"]).name for b in found["broken"]] == ["torn.npz", "torn.png"]
    text = run(capsys, model, "--input", folder, "--metrics")
    assert "2 inputs could not be compared" in text and "torn.png" in text
    assert "top-1 agreement 100.00%, top-5 100.00% over 6 inputs" in text
    assert run_json(capsys, model, "--input", folder, "--limit", 2)["records"] == 2
    pattern = f"data={folder}/?.np[yz]"
    assert run_json(capsys, model, "--input", pattern)["records"] == 6


@pytest.mark.device
def test_several_files_and_an_axis_of_records(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path
) -> None:
    np.save(tmp_path / "a.npy", arrays(*SMALL))
    np.save(tmp_path / "b.npy", arrays(4, *SMALL))
    one, four = ("--input", tmp_path / "a.npy"), ("--input", tmp_path / "b.npy")
    assert "records" not in run_json(capsys, model, *one)
    assert run_json(capsys, model, *one, "--limit", 5)["rows"]
    assert run_json(capsys, model, *four)["records"] == 4
    assert run_json(capsys, model, *one, *four)["records"] == 5


@pytest.mark.device
def test_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(3):
        image.new("RGB", (9, 7), (number, 99, 7)).save(tmp_path / f"{number}.png")
    found = run_json(capsys, model, "--input", tmp_path, "--keep-worst", tmp_path / "worst")
    assert found["records"] == 3
    kept = sorted((tmp_path / "worst").glob("*.npz"))
    index = json.loads((tmp_path / "worst" / "worst.json").read_text())
    assert {e["file"] for e in index} == {path.name for path in kept}
    again = run_json(capsys, model, "--input", tmp_path / "worst")
    assert again["records"] == len(kept)
    # The worst input of a row is the worst of those that were kept, too.
    for before, after in zip(found["rows"], again["rows"], strict=True):
        assert after["isolated"]["comparison"]["excess"] == pytest.approx(
            before["isolated"]["comparison"]["excess"]
        )


@pytest.mark.device
def test_search(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = write_faulty_model(tmp_path, "large")
    run(capsys, model)  # which finds nothing
    worst = tmp_path / "worst"
    argv = (model, "--search", "60s", "--search-steps", 40, "--seed", 3, "--keep-worst", worst)
    text = run(capsys, *argv, "--failures", code=1)
    assert "search: seed 3, 40 steps" in text
    found = run_json(capsys, *argv, code=1)
    assert found["search"]["steps"] == 40
    run(capsys, model, "--input", worst, "--failures", code=1)
    clean = write_faulty_model(tmp_path, "none")
    np.save(tmp_path / "start.npy", arrays(2, *SHAPE))
    argv = (clean, "--search", "0.5s", "--input", tmp_path / "start.npy")
    assert "operators agree" in run(capsys, *argv)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--metric", "f"], "write it as MODULE:FUNCTION"),
        (["--metric", "nowhere:f"], "ModuleNotFoundError"),
        (["--metric", "math:nowhere"], "there is no function nowhere in math"),
        (["--metric", "math:pi"], "there is no function pi in math"),
        (["--metric", "nowhere.py:f"], "FileNotFoundError"),
        (["--input", "nowhere*.png"], "no file has a name like nowhere*.png"),
        (["--input", "x=FOLDER"], "there is no input 'x'"),
        (["--input", "EMPTY"], "no arrays and no pictures"),
        (["--input", "FOLDER", "--dump", "dump.npz"], "--dump writes the arrays of one input"),
        (["--recipe", "nowhere.json"], "nowhere.json"),
    ],
)
def test_what_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path, argv: list[str], why: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    np.save(tmp_path / "full" / "a.npy", arrays(*SMALL))
    places = {"FOLDER": f"{tmp_path}/full", "EMPTY": f"{tmp_path}/empty"}
    for name, place in places.items():
        argv = [text.replace(name, place) for text in argv]
    assert why in run(capsys, model, *argv, "--device", "numpy", code=2)


@pytest.mark.parametrize("time", ["", "0s", "60x", "s", "-1s", "nan"])
def test_times_that_are_none(capsys: pytest.CaptureFixture[str], model: Path, time: str) -> None:
    with pytest.raises(SystemExit):
        main(["verify", str(model), f"--search={time}"])
    assert "is no time such as 60s" in capsys.readouterr().err


def test_on_numpy_nothing_is_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path
) -> None:
    np.save(tmp_path / "a.npy", arrays(2, *SMALL))
    argv = (model, "--input", tmp_path / "a.npy", "--device", "numpy")
    assert "nothing to compare" in run(capsys, *argv, code=1)
