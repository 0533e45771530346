"""Examples run in this process, on both backends."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def kept_pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests of a file: none of them is about caches."""
    return tmp_path_factory.mktemp("pipelines")


@pytest.fixture(autouse=True)
def _one_cache(_own_cache: None, kept_pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKNN_CACHE_DIR", str(kept_pipelines))


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def device(request: pytest.FixtureRequest) -> str:
    """What --device says."""
    return str(request.param)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a script by its name, in a temporary folder; gives the lines that it prints."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)

    def run_script(name: str, *arguments: object, status: int = 0) -> list[str]:
        found = importlib.import_module(name).main([str(a) for a in arguments])
        printed = capsys.readouterr().out
        assert found == status, printed
        return printed.splitlines()

    return run_script
