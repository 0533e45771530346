"""Files for models made by the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def save(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a model's bytes into a file."""

    def written(data: bytes) -> Path:
        path = tmp_path / "model.tflite"
        path.write_bytes(data)
        return path

    return written
