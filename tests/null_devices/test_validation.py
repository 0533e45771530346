"""Messages of the validation layer on null devices: a planted one fails its job and no other."""

from __future__ import annotations

import pytest
from tests.null_devices.jobs import QUICK_DEVICES, do, selected_devices

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched


@pytest.mark.parametrize("device", selected_devices(QUICK_DEVICES))
def test_a_missing_barrier_is_named(device: str) -> None:
    """The layer's synchronization validation looks at what dispatches read and write."""
    jobs = [
        {"kind": "chain", "name": name, "arithmetic": "fp32", "barriers": name == "whole"}
        for name in ("whole", "without barriers", "whole")
    ]
    with pytest.raises(pytest.fail.Exception) as failure:
        do(device, jobs)
    (line,) = [text for text in str(failure.value).splitlines() if text.startswith(f"{device}: ")]
    assert line.startswith(f"{device}: without barriers: ValidationError: ")
    assert "[SYNC-HAZARD-READ-AFTER-WRITE] vkCmdDispatch()" in str(failure.value)
