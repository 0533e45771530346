"""Sessions whose runs take long or never end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.formats.tflite.test_enums import deciding
from tests.run_limits.slow_runs import BACKENDS, slow_session

import vknn


@pytest.fixture(params=BACKENDS)
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[vknn.Session]:
    """A session of a WHILE that goes on while its first input is True."""
    path = tmp_path / "endless.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    with vknn.Session(path, device=request.param) as session:
        yield session


@pytest.fixture(params=BACKENDS)
def slow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[vknn.Session]:
    with slow_session(tmp_path, request.param) as session:
        yield session


@pytest.fixture
def slow_on_device(tmp_path: Path) -> Iterator[vknn.Session]:
    with slow_session(tmp_path, "vulkan") as session:
        yield session
