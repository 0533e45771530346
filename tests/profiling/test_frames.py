"""Samples of profiles as tables of other packages."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.profiling.profile_documents import command, document, processes

from vknn.errors import VknnError
from vknn.profiling import Profile


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


def test_importing_vknn_imports_neither() -> None:
    code = "import sys, vknn.profiling; sys.exit(bool({'pandas', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
