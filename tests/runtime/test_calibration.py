"""Clocks of device and host: commands lie within their submits on one time axis."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vknn
from small_model import write_small_model
from vknn.profiling import profile
from vknn.runtime.calibration import calibration
from vknn.runtime.vulkan.discovery import CALIBRATED

pytestmark = pytest.mark.device


def test_commands_lie_within_their_submit(tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        if (
            session.device is None
            or CALIBRATED not in session.device.shared.core.snapshot.extensions
        ):
            pytest.skip(f"the driver has no {CALIBRATED}")
        result = profile(session, runs=5)
    for run in result.runs:
        (segment,) = run.segments
        assert segment.timed is not None
        assert segment.timed.origin is not None
        ((begin, end),) = segment.timed.submits
        ends = segment.timed.origin + segment.timed.spans * 1e-9
        assert begin <= ends.min() < ends.max() <= end
        assert segment.spans.min() == pytest.approx(segment.timed.origin)


def test_a_driver_without(tmp_path: Path) -> None:
    """The clocks then meet where the first submit begins."""
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        assert session.device is not None
        core = session.device.shared.core
        before = core.snapshot
        core.snapshot = replace(before, extensions=before.extensions - {CALIBRATED})
        try:
            assert calibration(core) is None
            result = profile(session, runs=1)
        finally:
            core.snapshot = before
    (segment,) = result.runs[0].segments
    assert segment.timed is not None
    assert segment.timed.origin is None
    assert segment.spans.min() == segment.timed.submits[0, 0]


def test_counters_of_few_bits_wrap(tmp_path: Path) -> None:
    """A timestamp of before a wrap lies as long ago as one of 64 bits."""
    with vknn.Session(write_small_model(tmp_path), device="vulkan") as session:
        assert session.device is not None
        found = calibration(session.device.shared.core)
        if found is None:
            pytest.skip(f"the driver has no {CALIBRATED}")
        moments: Any = found._moments

        def asked(device: Any, count: int, infos: Any, out: Any, deviation: Any) -> int:
            moments[0], moments[1] = 5, 1_000_000_000
            return 0

        found._ask = asked
        mask = (1 << 36) - 1
        period = session.device.shared.core.snapshot.timestamp_period * 1e-9
        np.testing.assert_allclose(found.seconds(mask - 4, mask), 1.0 - 10 * period, rtol=1e-12)
