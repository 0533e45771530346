"""Parameters of kernels by name: push constants and specialization constants.

The table is generated from the compiled modules (tools/kernel_parameters.py): names, order, types
and ids are those of the shader.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vknn.errors import ShapeError
from vknn.lowering.generated.kernel_parameters import KERNELS

Number = int | float
#: Values by the names that the shader declares; sequences for arrays. None leaves a specialization
#: constant at the shader's default.
Push = Mapping[str, Number | Sequence[Number]]
Spec = Mapping[str, Number | None]

TOOL = "python tools/kernel_parameters.py"


@dataclass(frozen=True)
class Constant:
    """A specialization constant. ``required``: every variant of the kernel declares it."""

    id: int
    is_float: bool
    required: bool


@dataclass(frozen=True, eq=False)
class KernelParameters:
    """The parameters that a kernel declares.

    ``push``: names in the order of the block. ``arrays``: sizes of those that are arrays.
    ``either``: place of the member that is an int or a float, by variant.
    """

    kernel: str
    push: tuple[str, ...]
    arrays: Mapping[str, int]
    layout: struct.Struct
    either: int | None
    constants: Mapping[str, Constant]
    required: frozenset[str]
    #: Constants by the names that were found right once: rules name the same ones again and again.
    _checked: dict[tuple[str, ...], tuple[Constant, ...]] = field(default_factory=dict)

    def pack(self, values: Push) -> bytes:
        """The bytes of the push-constant block.

        Raises ValueError for a name that is unknown or missing and for arrays of another size,
        ShapeError for an integer that does not fit 32 bits.
        """
        try:
            words: list[Any] = [values[name] for name in self.push]
        except KeyError:
            words = []
        if not len(words) == len(values) == len(self.push):
            self._differ("push constants", values, self.push, self.push)
        if self.arrays:
            words = [word for name in self.push for word in self._words(name, values[name])]
        try:
            if self.either is not None:
                words[self.either] = _bits(words[self.either])
            return self.layout.pack(*words)
        except (struct.error, OverflowError) as error:
            raise ShapeError(f"{self.kernel}: {dict(values)} do not fit 32 bits") from error

    def specialization(self, values: Spec) -> dict[int, Number]:
        """Values by constant id.

        Raises ValueError for a name that is unknown or missing, ShapeError for an integer that does
        not fit 32 bits.
        """
        names = tuple(values)
        if names not in self._checked:
            if not self.required <= values.keys() or not values.keys() <= self.constants.keys():
                self._differ("specialization constants", values, self.constants, self.required)
            self._checked[names] = tuple(self.constants[name] for name in names)
        found: dict[int, Number] = {}
        for constant, value in zip(self._checked[names], values.values(), strict=True):
            if value is not None:
                found[constant.id] = float(value) if constant.is_float else value
        if not all(-(1 << 31) <= n < 1 << 32 for n in found.values() if isinstance(n, int)):
            raise ShapeError(f"{self.kernel}: {dict(values)} do not fit 32 bits")
        return found

    def named(self, values: Mapping[int, Number]) -> dict[str, Number]:
        """Values by constant name, of values by id; the workgroup's size is left out."""
        names = {constant.id: name for name, constant in self.constants.items()}
        return {names[number]: value for number, value in values.items() if number in names}

    def _words(self, name: str, value: Number | Sequence[Number]) -> Sequence[Number]:
        if isinstance(value, Sequence) and len(value) == self.arrays.get(name):
            return value
        if isinstance(value, Sequence) or name in self.arrays:
            size = self.arrays.get(name, "no array")
            raise ValueError(
                f"push constant {name!r} of kernel {self.kernel!r}: {size} not {value!r}"
            )
        return (value,)

    def _differ(
        self, what: str, given: Iterable[str], known: Iterable[str], required: Iterable[str]
    ) -> None:
        names, allowed, needed = set(given), set(known), set(required)
        wrong = [f"unknown {name!r}" for name in sorted(names - allowed)]
        wrong += [f"missing {name!r}" for name in sorted(needed - names)]
        raise ValueError(
            f"{what} of kernel {self.kernel!r}: {', '.join(wrong)} "
            f"(the shader declares {', '.join(sorted(allowed)) or 'none'}; "
            f"after a change of it run {TOOL})"
        )


@functools.cache
def parameters_of(kernel: str) -> KernelParameters:
    """The parameters of a kernel ("<family>/<name>"); raises ValueError for an unknown one."""
    if kernel not in KERNELS:
        raise ValueError(f"kernel {kernel!r} has no entry in the table of parameters: run {TOOL}")
    push, constants = (text.split() for text in KERNELS[kernel])
    members = [_member(word) for word in push]
    layout = "".join(f"{count or 1}{code}" for _, count, code in members)
    table = dict(_constant(word) for word in constants)
    return KernelParameters(
        kernel,
        tuple(name for name, _, _ in members),
        {name: count for name, count, _ in members if count},
        struct.Struct(f"<{layout}"),
        next((n for n, word in enumerate(push) if word.endswith(":either")), None),
        table,
        frozenset(name for name, constant in table.items() if constant.required),
    )


def by_axis(stem: str, values: Sequence[int]) -> dict[str, int]:
    """Members named by axis: ``stem_d``, ``stem_h``, ``stem_w``; of fewer values the last ones."""
    return {f"{stem}_{axis}": v for axis, v in zip("dhw"[-len(values) :], values, strict=True)}


def _bits(value: Number) -> int:
    """A float's bits as an int; an int as it is."""
    if isinstance(value, float):
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    return value


def _member(word: str) -> tuple[str, int, str]:
    """Name, size of the array or 0, and struct code of a member as the table writes it."""
    name, _, type_ = word.partition(":")
    name, _, count = name.partition("[")
    return name, int(count.rstrip("]") or 0), "f" if type_ == "float" else "i"


def _constant(word: str) -> tuple[str, Constant]:
    """A constant as the table writes it: NAME=id, NAME:float=id, NAME?=id where optional."""
    name, _, number = word.partition("=")
    optional = name.endswith("?")
    name, _, type_ = name.rstrip("?").partition(":")
    return name, Constant(int(number), type_ == "float", not optional)
