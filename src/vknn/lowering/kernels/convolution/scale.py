"""Vectors that convolutions multiply their input by (shaders/convolution/scale.glsl)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vknn.lowering.kit.emitter import BoundBuffer, Ref, read4
from vknn.lowering.kit.parameters import Number


@dataclass(frozen=True, eq=False)
class InputScale:
    """A vector of channels of each image, in C4, by which x is multiplied; None: x as it is.

    ``steps``: specialization constants of the steps behind the products and at the end.
    """

    vector: Ref | None = None
    steps: Mapping[str, Number] = field(default_factory=dict)

    @property
    def bindings(self) -> list[BoundBuffer]:
        """Buffers that are bound behind y."""
        return [] if self.vector is None else [read4(self.vector)]

    @property
    def defines(self) -> dict[str, int]:
        """Defines of the kernels' variants."""
        return {} if self.vector is None else {"SCALED": 1}


UNSCALED = InputScale()
