"""Every case runs on both backends."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def backend(request: pytest.FixtureRequest) -> str:
    """Where vknn computes."""
    return str(request.param)
