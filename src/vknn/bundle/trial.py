"""Trial of a bundle on this machine: its example run, and compared with what should come out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vknn.bundle.comparison import Difference, differences
from vknn.bundle.native import run_program
from vknn.bundle.reader import Bundle
from vknn.bundle.records import BundlePlan
from vknn.bundle.restored import RestoredPlan
from vknn.bundle.schema import Direction
from vknn.bundle.suitability import lacking
from vknn.errors import DeviceError, VknnError
from vknn.runtime import Device, Snapshot

#: How the two that compute are called.
OWN, PROGRAM = "vknn", "vknn-run"
#: What vknn-run says of a device that lacks something.
_UNSUITABLE = "the bundle does not suit"


def try_plan(bundle: Bundle, plan: BundlePlan, device: Device) -> list[Difference]:
    """The example of a plan run by vknn's own runtime; a row for each output.

    Raises VknnError for a plan without an example, and for a device that does not suit.
    """
    with RestoredPlan(bundle, plan, device) as restored:
        outputs = restored.run(_feeds(bundle, plan))
    return differences(plan.examples, outputs, OWN)


def try_program(
    bundle: Bundle, plan: BundlePlan, snapshot: Snapshot, program: Path
) -> list[Difference]:
    """The example of a plan run by vknn-run; a row for each output. Raises as :func:`try_plan`.

    Of a plan that only vknn-run may be able to run there is none where its device does not suit.
    """
    device = snapshot.uuid.hex() if any(snapshot.uuid) else str(snapshot.index)
    feeds = _feeds(bundle, plan)
    try:
        outputs = run_program(program, Path(bundle.file), plan, feeds, ["--device", device])
    except DeviceError as error:
        if lacking(plan, snapshot) and _UNSUITABLE in str(error):
            return []
        raise
    return differences(plan.examples, outputs, PROGRAM)


def suiting_plans(
    plans: Sequence[BundlePlan], snapshot: Snapshot
) -> tuple[list[BundlePlan], list[BundlePlan]]:
    """The plans that suit a device, and those that only vknn-run may be able to run there.

    Raises VknnError where there is none.
    """
    lacks = {plan.index: lacking(plan, snapshot) for plan in plans}
    suiting = [plan for plan in plans if not lacks[plan.index]]
    others = [plan for plan in plans if lacks[plan.index]]
    alone = [plan for plan in others if not lacking(plan, snapshot, program=True)]
    if not suiting and not alone:
        raise VknnError(
            f"{snapshot.name} suits no plan: {needs_of(plans, snapshot)}: export for --target "
            "generic, or choose another --device"
        )
    return suiting, alone


def needs_of(plans: Sequence[BundlePlan], snapshot: Snapshot) -> str:
    """Text that says what each of these plans needs that a device lacks."""
    return "; ".join(
        f"plan {plan.index} ({plan.target}) needs {', '.join(lacking(plan, snapshot))}"
        for plan in plans
    )


def _feeds(bundle: Bundle, plan: BundlePlan) -> dict[str, np.ndarray]:
    examples = plan.examples
    if not any(e.port.direction is Direction.OUTPUT for e in examples):
        raise VknnError(
            f"{bundle.file}: it has no example with answers, so there is nothing to compare with: "
            "export it with --example FILE"
        )
    return {e.port.name: e.array for e in examples if e.port.direction is Direction.INPUT}
