"""Every case runs on both backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo import nets


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def backend(request: pytest.FixtureRequest) -> str:
    """Where vknn computes."""
    return str(request.param)


@pytest.fixture
def check(tmp_path: Path, backend: str) -> Callable[..., None]:
    """Comparison of one operator's outputs with arrays: see ``nets.check``."""

    def checked(code: str, inputs: Sequence[Any], expected: Sequence[np.ndarray], *options: Any,
                **more: Any) -> None:  # fmt: skip
        nets.check(tmp_path / "model.tflite", backend, code, inputs, expected, *options, **more)

    return checked
