"""Parameters of a lab's kernel, from names to the numbers that the device is given."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from vknn.errors import VknnError
from vknn.kernel_lab.declarations import Declarations
from vknn.kernel_lab.description import Number, Pushed
from vknn.runtime.spirv.reflection import Member


def specialization(
    declared: Declarations, constants: Mapping[str, Number], local: Sequence[int]
) -> tuple[tuple[tuple[int, Number], ...], list[str]]:
    """Specialization constants by id, and notes about names that the shader does not declare.

    Raises VknnError for numbers that do not fit their type.
    """
    found: dict[int, Number] = dict(enumerate(local))
    notes = []
    for name, value in constants.items():
        constant = declared.constants.get(name)
        if constant is None:
            notes.append(f"constant {name} of lab.json is not in the shader any more")
        else:
            found[constant.id] = _fitting(name, value, constant.type)
    return tuple(sorted(found.items())), notes


def packed_push(declared: Declarations, push: Mapping[str, Pushed]) -> tuple[bytes, list[str]]:
    """The push-constant block, and notes about names that the shader does not declare.

    Raises VknnError for members that have no number, and for numbers that do not fit.
    """
    size = max((m.offset + 4 * (m.count or 1) for m in declared.push), default=0)
    block = bytearray(size)
    for member in declared.push:
        if member.name not in push:
            raise VknnError(
                f"push constant {member.name!r} of the shader has no number in lab.json, which has "
                f"{', '.join(push) or 'none'}"
            )
        _put(block, member, push[member.name])
    known = {member.name for member in declared.push}
    gone = [name for name in push if name not in known]
    return bytes(block), [f"push constant {n} of lab.json is not in the shader" for n in gone]


def read_push(members: Sequence[Member], block: bytes) -> dict[str, Pushed]:
    """Push constants by name, of a block's bytes."""
    found: dict[str, Pushed] = {}
    for member in members:
        layout = f"<{member.count or 1}{_letter(member.type)}"
        numbers = struct.unpack_from(layout, block, member.offset)
        found[member.name] = numbers[0] if member.count is None else numbers
    return found


def _put(block: bytearray, member: Member, value: Pushed) -> None:
    numbers = value if isinstance(value, tuple) else (value,)
    if len(numbers) != (member.count or 1) or isinstance(value, tuple) != (
        member.count is not None
    ):
        raise VknnError(
            f"push constant {member.name!r} takes {member.count or 1} numbers, not {len(numbers)}"
        )
    fitting = [_fitting(member.name, n, member.type) for n in numbers]
    struct.pack_into(f"<{len(fitting)}{_letter(member.type)}", block, member.offset, *fitting)


def _letter(kind: str) -> str:
    return {"float": "f", "uint": "I"}.get(kind, "i")


def _fitting(name: str, value: Number, kind: str) -> Number:
    """A number in the range of its type."""
    if kind == "float":
        try:
            struct.pack("<f", value)
        except (OverflowError, struct.error):
            raise VknnError(f"{name}: {value} is beyond float32") from None
        return float(value)
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise VknnError(f"{name}: {value} is no integer")
    ranges = {"bool": (0, 2), "uint": (0, 1 << 32), "int": (-(1 << 31), 1 << 31)}
    least, end = ranges[kind]
    if not least <= value < end:
        raise VknnError(f"{name}: {value} does not fit the shader's {kind}")
    return int(value)
