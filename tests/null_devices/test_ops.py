"""Every op case by every candidate on drivers of GPUs that are not here. See test_models.py."""

from __future__ import annotations

import pytest
from tests.lowering.op_cases import FAMILIES
from tests.null_devices.jobs import do, ops_job, selected_devices

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fp32", "fp16", "fp16-arithmetic", "bf16"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("device", selected_devices())
def test_every_candidate(device: str, family: str, mode: str) -> None:
    (found,) = do(device, [ops_job(family, mode)], 1800)
    assert found["candidates"] > 0
