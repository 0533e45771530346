"""Fixtures of stacked runs: a small model, a note of runs, and lists that are long enough."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.batching.lists import FEW, Noted, noted_runs
from tests.small_model import write_small_model

from vknn.batching import list_runs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_small_model(tmp_path)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    return noted_runs(monkeypatch)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of FEW are long enough, however short their runs are."""
    monkeypatch.setattr(list_runs, "FEWEST", FEW)
    monkeypatch.setattr(list_runs, "WORTH", 0.0)
    monkeypatch.setattr(list_runs, "_TIMES_MADE", 0)
