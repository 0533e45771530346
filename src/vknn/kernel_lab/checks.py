"""Checks of a dispatch against a device's limits and the shader's own declarations.

What a driver is given without them is undefined, and may take the machine down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vknn.errors import DeviceError, ShaderError
from vknn.kernel_lab.declarations import Declarations
from vknn.kernel_lab.description import LabBinding
from vknn.plan import Access, DeviceLimits, View
from vknn.profiling.invocation.module import KernelModule

_WORKGROUP = 4  # storage class


def check_bindings(declared: Declarations, bindings: Sequence[LabBinding], file: str) -> None:
    """Check that every buffer of the shader is bound as it declares it; raises ShaderError."""
    for number, descriptor in sorted(declared.descriptors.items()):
        place = f"{file}: binding {number} ({descriptor.name})"
        if number >= len(bindings):
            raise ShaderError(
                f"{place} of the shader has no buffer: lab.json binds 0 to {len(bindings) - 1}"
            )
        given = bindings[number]
        if given.view is not descriptor.view:
            raise ShaderError(
                f"{place}: the shader declares a {descriptor.view.value} buffer, and lab.json has "
                f"{given.view.value}"
            )
        if descriptor.writable and descriptor.readable is False and given.access is Access.READ:
            raise ShaderError(f"{place}: the shader writes it, and lab.json has it as read only")


def features_missing(declared: Declarations, needs: Sequence[str], limits: DeviceLimits) -> None:
    """Check that the device has what the module needs; raises DeviceError that names it."""
    missing = sorted((declared.features | set(needs)) - limits.features)
    if missing:
        raise DeviceError(
            f"{limits.name} has no {', '.join(missing)}, which this kernel needs: choose another "
            "device (--device), or extract the layer there"
        )


def beyond_limits(
    local: Sequence[int],
    groups: Sequence[int],
    push: int,
    bindings: Sequence[LabBinding],
    shared: int | None,
    limits: DeviceLimits,
) -> str | None:
    """The reason why a device cannot run a dispatch; None where it can.

    ``push``: bytes of push constants. ``shared``: bytes of shared memory, None where not known.
    """
    axes = "xyz"
    for axis, size, most in zip(axes, local, limits.max_group_size, strict=True):
        if not 0 < size <= most:
            return f"{size} lanes along {axis}, the device has 1 to {most}"
    lanes = math.prod(local)
    if lanes > limits.max_group_invocations:
        return f"{lanes} lanes, the device has at most {limits.max_group_invocations}"
    for axis, count, most in zip(axes, groups, limits.max_group_count, strict=True):
        if not 0 < count <= most:
            return f"{count} workgroups along {axis}, the device takes 1 to {most}"
    if shared is not None and shared > limits.shared_memory:
        return f"{shared} bytes of shared memory, the device has {limits.shared_memory}"
    if push > limits.max_push_constants:
        return f"{push} bytes of push constants, the device has {limits.max_push_constants}"
    return _beyond_views(bindings, limits)


def _beyond_views(bindings: Sequence[LabBinding], limits: DeviceLimits) -> str | None:
    storage = sum(b.view is View.STORAGE for b in bindings)
    if storage > limits.max_storage_buffers:
        return f"{storage} storage buffers, the device has {limits.max_storage_buffers}"
    for number, b in enumerate(bindings):
        if b.view is View.STORAGE:
            if b.nbytes > limits.max_storage_buffer_range:
                most = limits.max_storage_buffer_range
                return f"binding {number} has {b.nbytes} bytes, the device's buffers {most}"
            if b.offset % limits.storage_alignment:
                return f"binding {number} begins at byte {b.offset}, where none may begin"
            continue
        texels = b.nbytes // b.format.texel_bytes
        if texels > limits.max_texel_buffer_elements:
            most = limits.max_texel_buffer_elements
            return f"binding {number} has {texels} texels, the device's buffers {most}"
        if b.offset % limits.texel_alignment:
            return f"binding {number} begins at byte {b.offset}, where none may begin"
    return None


def shared_bytes(spirv: bytes, constants: Mapping[int, int | float]) -> int | None:
    """Bytes of shared memory of a pipeline; None where the module is not understood."""
    try:
        module = KernelModule.parse(spirv, constants)
        types, total = module.types, 0
        for variable in module.variables:
            storage, kind = types.pointed(variable)
            total += types.nbytes(kind) if storage == _WORKGROUP else 0
    except (ShaderError, KeyError, ValueError, ArithmeticError, NameError):
        return None
    return total
