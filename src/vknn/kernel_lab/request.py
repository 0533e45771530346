"""Request of a lab's dispatch: names turned to numbers, and all checked against the device."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.errors import DeviceError
from vknn.kernel_lab import checks, parameters
from vknn.kernel_lab.description import LabDescription
from vknn.kernel_lab.kernel_source import CompiledKernel
from vknn.plan import DeviceLimits, Dispatch


@dataclass(frozen=True)
class LabRequest:
    """A dispatch that the device can run, and notes about names that the shader lacks."""

    dispatch: Dispatch
    notes: tuple[str, ...]


def requested(
    description: LabDescription,
    compiled: CompiledKernel,
    limits: DeviceLimits,
    file: str = "lab.json",
) -> LabRequest:
    """The dispatch of a description.

    Raises DeviceError for what the device has not, or beyond its limits; ShaderError where the
    shader's bindings are not those that ``file`` describes.
    """
    declared = compiled.declared
    checks.features_missing(declared, (), limits)
    checks.check_bindings(declared, description.bindings, file)
    constants, notes = parameters.specialization(declared, description.constants, description.local)
    push, more = parameters.packed_push(declared, description.push)
    shared = checks.shared_bytes(compiled.spirv, dict(constants))
    reason = checks.beyond_limits(
        description.local, description.groups, len(push), description.bindings, shared, limits
    )
    if reason is not None:
        raise DeviceError(f"{limits.name} cannot run this dispatch: {reason}")
    dispatch = Dispatch(
        kernel=description.kernel,
        variant=tuple(sorted(description.variant.items())),
        specialization=constants,
        push=push,
        bindings=(),
        groups=description.groups,
        nodes=description.layers,
        label=description.label,
        flops=description.flops,
        nbytes=description.nbytes,
    )
    return LabRequest(dispatch, (*notes, *more))
