"""Planning from limits alone: the plans are those of a session on a device that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.small_model import write_small_model

import vknn
from vknn.formats import load
from vknn.graph import DType, TensorType
from vknn.lowering import LoweringOptions, WeightCache, format_plan
from vknn.plan import DeviceLimits
from vknn.planning import Outline, outlined
from vknn.session import engine_of

TYPE = TensorType((3, 8, 8), DType.FLOAT32)


def outline(folder: Path, limits: DeviceLimits | None) -> Outline:
    return outlined(
        load(write_small_model(folder)).build({"data": TYPE}), limits, LoweringOptions()
    )


@pytest.mark.device
def test_plans_are_those_of_a_session(tmp_path: Path) -> None:
    device = shared_device()
    found = outline(tmp_path, device.limits)
    (segment,) = found.segments
    assert found.is_on_device(segment)
    text = format_plan(found.lowered(segment, WeightCache()))
    with vknn.Session(tmp_path / "small.param", device=device, tuned=False) as session:
        (plan,) = engine_of(session).program({"data": np.zeros(TYPE.dims, np.float32)}).plans
        assert format_plan(plan) == text


def test_limits_that_no_device_here_has(tmp_path: Path) -> None:
    found = outline(tmp_path, DeviceLimits())
    (segment,) = found.segments
    plan = found.lowered(segment, WeightCache())
    assert len(plan.dispatches) > 3
    sizes = [dict(step.specialization).get(0, 1) for step in plan.dispatches]
    assert max(sizes) <= DeviceLimits().max_group_invocations


def test_without_limits_all_is_the_hosts(tmp_path: Path) -> None:
    found = outline(tmp_path, None)
    assert not any(map(found.is_on_device, found.segments))
