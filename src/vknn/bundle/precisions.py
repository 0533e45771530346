"""Precisions of a bundle's plans: what is asked for where a target has 16 bits, else fp32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vknn.bundle.targets import PlanTarget
from vknn.errors import ExportError
from vknn.lowering import LoweringOptions


def plan_options(targets: Sequence[PlanTarget], options: LoweringOptions) -> list[LoweringOptions]:
    """The options of each target's plans.

    A target without 16-bit storage gets fp32, one without 16-bit arithmetic computes in fp32.
    Raises ExportError where no target has what is asked for.
    """
    found = [_usable(target, options) for target in targets]
    asked = (options.precision, options.arithmetic)
    if not any((own.precision, own.arithmetic) == asked for own in found):
        raise ExportError([_lack(target, options) for target in targets])
    return found


def _usable(target: PlanTarget, options: LoweringOptions) -> LoweringOptions:
    """The options as far as a target can have them."""
    if options.half and "fp16_storage" not in target.limits.features:
        return replace(options, precision="fp32", arithmetic="fp32", layers=None)
    if "fp16_arithmetic" not in target.limits.features:
        return replace(options, arithmetic="fp32")
    return options


def _lack(target: PlanTarget, options: LoweringOptions) -> str:
    """What a target has not, and what to do."""
    if "fp16_storage" not in target.limits.features:
        return (
            f"target {target.name!r} has no 16-bit storage (storageBuffer16BitAccess), which "
            f"--precision {options.precision} needs; export it with --precision fp32, or for "
            "another --target, beside which it gets fp32"
        )
    return (
        f"target {target.name!r} has no 16-bit arithmetic (shaderFloat16), which --arithmetic fp16 "
        "needs; leave it out (--precision fp16 may stay)"
    )
