"""Problem: an op on concrete types with its options, as a kernel rule is given it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kit.layer_precisions import LayerPrecisions
from vknn.lowering.kit.layouts import Layout, element_bytes
from vknn.lowering.kit.machine import Machine, machine_of
from vknn.ops.quantized.arithmetic import QuantizedBinary
from vknn.plan import DeviceLimits


@dataclass(frozen=True)
class LoweringOptions:
    """Options of a whole plan.

    ``disabled``: parts switched off for bisection ("texel", "aliasing", "winograd", ...; see
    docs/environment.md). ``guard``: bytes left behind every buffer to catch overruns.
    ``algorithm``: take the candidate of this name wherever one offers it (tests, tuning).
    ``layout``: take candidates whose first output has this layout where there are some (tests).
    ``choices``: measured choices, candidate names by key (see vknn.lowering.choose.tuned_choices).
    ``precision``: "fp16" stores tensors and weights as float16, "bf16" as bfloat16; kernels compute
    in float32.
    ``arithmetic``: "fp16" has convolutions and matrix products multiply in float16 and add up
    HALF_TERMS products in it at a time, on devices that are faster so; only with precision "fp16".
    ``layers``: those that keep float32 in both; None: none do (see :meth:`of`).
    """

    disabled: frozenset[str] = frozenset()
    guard: int = 0
    algorithm: str | None = None
    layout: Layout | None = None
    choices: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    precision: str = "fp32"
    arithmetic: str = "fp32"
    layers: LayerPrecisions | None = field(default=None, hash=False, repr=False)

    def of(self, layer: str) -> LoweringOptions:
        """The options of a node by the name of its origin: as if all of the plan were like it."""
        if self.layers is None:
            return self
        return self._single if self.half and self.layers.keeps_single(layer) else self._plain

    @functools.cached_property
    def _plain(self) -> LoweringOptions:
        return replace(self, layers=None)

    @functools.cached_property
    def _single(self) -> LoweringOptions:
        return replace(self, layers=None, precision="fp32", arithmetic="fp32")

    @property
    def half(self) -> bool:
        """True where tensors are stored in 16 bits."""
        return self.precision != "fp32"

    @property
    def float16(self) -> bool:
        """True where tensors are stored as float16."""
        return self.precision == "fp16"

    @property
    def bfloat16(self) -> bool:
        """True where tensors are stored as bfloat16."""
        return self.precision == "bf16"

    @property
    def half_sums(self) -> bool:
        """True where kernels may multiply and add in float16."""
        return self.float16 and self.arithmetic == "fp16"


@dataclass(frozen=True)
class EpilogueStep:
    """Step of an epilogue, as the constants that shaders/common/epilogue.glsl reads."""

    code: int
    a: float = 0.0
    b: float = 0.0
    mode: int = 0


@dataclass(frozen=True)
class Epilogue:
    """Fused elementwise steps, and the types of the tensors they read (in the output's layout).

    ``quantized``: the epilogue of a quantized op, in place of steps: its sum with the one operand.
    """

    steps: tuple[EpilogueStep, ...] = ()
    operands: tuple[TensorType, ...] = ()
    quantized: QuantizedBinary | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """An op on concrete types. ``constants`` holds the data of inputs that are constants.

    For a fused op, ``op``, ``inputs`` and ``outputs`` are those of the base op; the steps are in
    ``epilogue`` (never None where the op's class sets ``fusion``).
    """

    op: Op
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constants: tuple[np.ndarray | None, ...]
    limits: DeviceLimits
    options: LoweringOptions = field(default_factory=LoweringOptions)
    epilogue: Epilogue = field(default_factory=Epilogue)

    def input(self, index: int) -> TensorType:
        """The type of an input; raises ValueError where it is absent."""
        type_ = self.inputs[index]
        if type_ is None:
            raise ValueError(f"{self.op.type_name}: input {index} is absent")
        return type_

    @property
    def machine(self) -> Machine:
        """Times of the device's steps, for estimates."""
        return machine_of(self.limits)

    @property
    def half_sums(self) -> bool:
        """True where kernels that are able to multiply and add in float16 shall do so."""
        able = self.options.half_sums and not self.op.exact_sums
        return able and self.machine.half < 1

    @property
    def converts(self) -> bool:
        """True where stored factors take instructions to become float32."""
        return self.options.bfloat16 or (self.options.half and self.machine.converts)

    def element_bytes(self, type_: TensorType) -> int:
        """Bytes of an element of such a tensor in its buffer."""
        return element_bytes(type_.dtype, self.options.half)
