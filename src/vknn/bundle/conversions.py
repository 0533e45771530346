"""Conversions of a plan's inputs and outputs on the device, in front of and behind its steps.

An input or output in the user's element type and order of axes gets a buffer of its own; the
graph's buffer then is one of activations, which one dispatch of shaders/movement/port.comp writes
or reads. That computes what NumPy's ``astype`` does for numbers that the target holds; a device
reports no others: integers keep their low bits (an int64 beyond int32 becomes another number),
floats beyond float16 become infinite, floats beyond an integer's range the end of it, NaN 0 or
with ``nan_to_most`` the greatest.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.bundle.schema import PortElement
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import buffer_bytes, ceil_div
from vknn.lowering.kit.parameters import parameters_of
from vknn.plan import Access, Binding, DeviceLimits, Dispatch, Port, TexelFormat

KERNEL = "movement/port"
#: Rounds of the loops within a word: four bytes, the axes of each.
_ROUNDS = 4 * 9
#: Axes that the kernel takes apart.
MOST_AXES = 8


class Kind(enum.IntEnum):
    """Element types as the kernel numbers them: those of bundles, and bfloat16."""

    FLOAT32 = PortElement.FLOAT32
    FLOAT16 = PortElement.FLOAT16
    INT8 = PortElement.INT8
    UINT8 = PortElement.UINT8
    INT16 = PortElement.INT16
    UINT16 = PortElement.UINT16
    INT32 = PortElement.INT32
    UINT32 = PortElement.UINT32
    INT64 = PortElement.INT64
    UINT64 = PortElement.UINT64
    BOOL = PortElement.BOOL
    FLOAT64 = PortElement.FLOAT64
    BFLOAT16 = 12

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return _WIDTHS[self]


_WIDTHS = {
    Kind.INT8: 1, Kind.UINT8: 1, Kind.BOOL: 1,
    Kind.FLOAT16: 2, Kind.BFLOAT16: 2, Kind.INT16: 2, Kind.UINT16: 2,
    Kind.FLOAT32: 4, Kind.INT32: 4, Kind.UINT32: 4,
    Kind.INT64: 8, Kind.UINT64: 8, Kind.FLOAT64: 8,
}  # fmt: skip
_FLOATS = frozenset((Kind.FLOAT32, Kind.FLOAT16, Kind.BFLOAT16))
#: Kinds of the same bits.
_ALIKE = ({Kind.INT32, Kind.UINT32}, {Kind.INT64, Kind.UINT64})


def kind_of(port: Port) -> Kind:
    """The kind of what lies in a port's buffer."""
    if port.as_typed:
        return Kind[port.type.dtype.name]
    if not port.type.dtype.is_float:
        return Kind.INT32
    if port.width == 2:
        return Kind.BFLOAT16 if port.bfloat16 else Kind.FLOAT16
    return Kind.FLOAT32


@dataclass(frozen=True)
class AxisOrder:
    """An order of axes: ``sizes`` of the target's, ``strides`` along these in the source, in
    elements, and the place ``first`` of the target's first element in the source."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0

    @property
    def joined(self) -> AxisOrder | None:
        """The same with as few axes as can be; None where elements stay in their order."""
        axes: list[tuple[int, int]] = []
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if size == 1:
                continue
            if axes and axes[-1][1] == size * stride:
                axes[-1] = (axes[-1][0] * size, stride)
            else:
                axes.append((size, stride))
        if not self.first and (not axes or (len(axes) == 1 and axes[0][1] == 1)):
            return None
        sizes, strides = zip(*(axes or [(1, 1)]), strict=True)
        return AxisOrder(sizes, strides, self.first)


@dataclass(frozen=True)
class PortConversion:
    """A conversion of ``size`` elements; ``rounds``: floats become the nearest integers, halves to
    even; else what is behind the point is cut off. ``nan_to_most``: NaN the largest, else 0."""

    source: Kind
    target: Kind
    size: int
    order: AxisOrder | None = None
    rounds: bool = False
    nan_to_most: bool = False

    @property
    def is_copy(self) -> bool:
        """Whether the target's bytes are the source's."""
        alike = self.source is self.target or {self.source, self.target} in _ALIKE
        return alike and (self.order is None or self.order.joined is None)

    @property
    def target_bytes(self) -> int:
        """Size of the target's buffer."""
        return buffer_bytes(self.size, self.target.width)

    @property
    def source_bytes(self) -> int:
        """Size of the source's buffer."""
        return buffer_bytes(self.size, self.source.width)


def can_convert(source: Kind, target: Kind) -> bool:
    """Whether the kernel has this conversion."""
    if source is Kind.FLOAT64:
        return False
    return target is not Kind.FLOAT64 or source in _FLOATS


def dispatch(
    conversion: PortConversion,
    source: int,
    target: int,
    limits: DeviceLimits,
    label: str,
    name: str,
) -> Dispatch:
    """The dispatch of a conversion from one buffer to another, by their numbers.

    Raises ShapeError where the device cannot have as many workgroups.
    """
    order = conversion.order.joined if conversion.order is not None else None
    sizes, strides = (order.sizes, order.strides) if order is not None else ((), ())
    count = ceil_div(conversion.size * conversion.target.width, 4)
    # What the shader takes apart by division is a number of an element.
    shares = grid(limits, count, max(count, conversion.size), _ROUNDS)
    parameters = parameters_of(KERNEL)
    spec = parameters.specialization(
        {
            "FROM": int(conversion.source),
            "TO": int(conversion.target),
            "AXES": len(sizes),
            "ROUNDED": int(conversion.rounds),
            "NAN_HIGH": int(conversion.nan_to_most),
            **shares.spec,
        }
    )
    push = parameters.pack(
        {
            "count": count,
            "chunk": shares.chunk,
            "size": conversion.size,
            "first": order.first if order is not None else 0,
            "sizes": _padded(sizes, 1),
            "strides": _padded(strides, 0),
        }
    )
    return Dispatch(
        kernel=KERNEL,
        variant=(("ACCESS", "0"),),
        specialization=tuple(sorted({**dict(enumerate(shares.local)), **spec}.items())),
        push=push,
        bindings=(
            Binding(source, Access.READ, format=TexelFormat.R32_SINT),
            Binding(target, Access.WRITE, format=TexelFormat.R32_SINT),
        ),
        groups=shares.groups,
        nodes=(name,),
        label=label,
        nbytes=conversion.source_bytes + conversion.target_bytes,
    )


def _padded(numbers: Sequence[int], filler: int) -> tuple[int, ...]:
    return (*numbers, *(filler,) * (MOST_AXES - len(numbers)))
