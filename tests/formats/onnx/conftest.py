"""Backends of tests of loops and scans."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers import shared_device


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def device(request: pytest.FixtureRequest) -> Any:
    """What a session takes as its device."""
    return "numpy" if request.param == "numpy" else shared_device()
