"""Samples of profiles as tables of other packages."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.profiling.profile_documents import command, document, processes

from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.profiling import Profile
from vknn.profiling.vkprof import write_document


@pytest.fixture
def loaded() -> Profile:
    return Profile.from_document(processes(1, 0, runs=3)[0])


def test_arrow(loaded: Profile) -> None:
    pytest.importorskip("pyarrow")
    table = loaded.to_arrow()
    assert table.num_rows == 3 * 10
    rows = table.to_pylist()
    assert rows[13]["run"] == 1
    assert rows[13]["command"] == 3
    assert rows[13]["layers"] == ["conv3"]
    seconds = [np.median([r["seconds"] for r in rows if r["command"] == n]) for n in range(10)]
    assert np.array(seconds) * 1e6 == pytest.approx([t.median for t in loaded.timings])


def test_pandas(loaded: Profile) -> None:
    pytest.importorskip("pandas")
    frame = loaded.to_dataframe()
    medians = frame.groupby("command")["seconds"].median() * 1e6
    assert list(medians) == pytest.approx([t.median for t in loaded.timings])
    assert frame["layers"][0] == ("conv0",)


def test_names_that_are_no_text() -> None:
    pytest.importorskip("pyarrow")
    found = Profile.from_document(document([command(["\ud800"])], np.ones((1, 1))))
    assert found.to_arrow()["layers"].to_pylist() == [["\\ud800"]]


@pytest.mark.parametrize(
    ("module", "method"), [("pyarrow", "to_arrow"), ("pandas", "to_dataframe")]
)
def test_without_the_package_the_remedy_is_named(
    loaded: Profile, monkeypatch: pytest.MonkeyPatch, module: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(VknnError, match=f"pip install {module}"):
        getattr(loaded, method)()


def saved(folder: Path, name: str = "conv0") -> str:
    path = folder / "a.vkprof"
    write_document(path, document([command([name]), command(["fc", "relu"])], np.ones((3, 2))))
    return str(path)


@pytest.mark.parametrize("name", ["conv0", "a, b", 'q"', "line\nbreak", "\U0001f600"])
def test_samples_as_csv(name: str, tmp_path: Path) -> None:
    """A row for each command of each run, whatever layers are called."""
    file = tmp_path / "samples.csv"
    assert main(["report", saved(tmp_path, name), "--samples", str(file)]) == 0
    with file.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    assert [(row["run"], row["command"]) for row in rows] == [
        (str(run), str(number)) for run in range(3) for number in range(2)
    ]
    assert [json.loads(row["layers"]) for row in rows[:2]] == [[name], ["fc", "relu"]]
    assert [float(row["seconds"]) for row in rows] == pytest.approx([1.0] * 6)
    assert {row["kernel"] for row in rows} == {"convolution/conv"}


def test_samples_as_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "samples.PARQUET"
    assert main(["report", saved(tmp_path), "--samples", str(file)]) == 0
    rows = parquet.read_table(file).to_pylist()
    assert [row["layers"] for row in rows] == [["conv0"], ["fc", "relu"]] * 3
    assert rows[5]["run"] == 2


@pytest.mark.parametrize("name", ["samples", "samples.json", "samples.vkprof"])
def test_samples_of_another_kind(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", saved(tmp_path), "--samples", str(tmp_path / name)]) == 2
    assert f"{name}: samples are written as .csv or .parquet" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_importing_vknn_imports_neither() -> None:
    code = "import sys, vknn.profiling; sys.exit(bool({'pandas', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
