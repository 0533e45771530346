"""What a family offers: rules that turn an op on given types into candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.layouts import Layout, element_bytes
from vknn.plan import DeviceLimits

if TYPE_CHECKING:
    from vknn.lowering.emitter import Emitter
    from vknn.ops.quantized import QuantizedBinary


@dataclass(frozen=True)
class LoweringOptions:
    """Choices that hold for a whole plan.

    ``disabled``: parts switched off for bisection ("texel", "aliasing", "winograd", ...; see
    docs/environment.md). ``guard``: bytes left behind every buffer to catch overruns.
    ``algorithm``: take the candidate of this name wherever one offers it (tests, tuning).
    ``layout``: take candidates whose first output has this layout where there are some (tests).
    ``choices``: measured choices, candidate names by key (see vknn.lowering.choices).
    ``precision``: "fp16" stores tensors and weights as float16; kernels compute in float32.
    ``arithmetic``: "fp16" has convolutions and matrix products multiply in float16 and add up
    HALF_TERMS products in it at a time; only with precision "fp16".
    """

    disabled: frozenset[str] = frozenset()
    guard: int = 0
    algorithm: str | None = None
    layout: Layout | None = None
    choices: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    precision: str = "fp32"
    arithmetic: str = "fp32"

    @property
    def half(self) -> bool:
        """True where tensors are stored as float16."""
        return self.precision == "fp16"

    @property
    def half_sums(self) -> bool:
        """True where kernels that can are to multiply and add in float16."""
        return self.half and self.arithmetic == "fp16"


@dataclass(frozen=True)
class EpilogueStep:
    """A step of a fused tail, as the constants that shaders/common/epilogue.glsl reads."""

    code: int
    a: float = 0.0
    b: float = 0.0
    mode: int = 0


@dataclass(frozen=True)
class Epilogue:
    """A fused tail: steps and the types of the extra tensors they read (outputs' layout).

    ``quantized``: the tail of a quantized op, in place of steps: its sum with the one operand.
    """

    steps: tuple[EpilogueStep, ...] = ()
    operands: tuple[TensorType, ...] = ()
    quantized: QuantizedBinary | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """An op on concrete types. ``constants`` holds the data of inputs that are constants.

    For a fused op, ``op``, ``inputs`` and ``outputs`` are those of the base op; the tail is in
    ``epilogue`` (never None where the op's class sets ``fusion``).
    """

    op: Op
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constants: tuple[np.ndarray | None, ...]
    limits: DeviceLimits
    options: LoweringOptions = field(default_factory=LoweringOptions)
    epilogue: Epilogue = field(default_factory=Epilogue)

    def element_bytes(self, type_: TensorType) -> int:
        """Bytes of an element of such a tensor in its buffer."""
        return element_bytes(type_.dtype, self.options.half)


@dataclass(frozen=True)
class Part:
    """An input that lies in output 0 as it is.

    ``offset``: byte where it begins; None where its producer cannot write there (alignment, bytes
    behind its end). ``cost``: estimated microseconds of copying it there.
    """

    offset: int | None
    cost: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to compute a node.

    ``inputs``: the layout each input is wanted in; None for an absent input and for a constant
    that ``emit`` packs itself (``Emitter.weight``). ``outputs``: the layout each output gets.
    ``cost``: estimated microseconds on the device, for choosing among candidates; a dispatch
    itself counts DISPATCH_COST. ``view``: output 0 is the bytes of this input from ``view_offset``
    on; then ``emit`` is called only where no alias is possible (and must copy). ``inplace``: inputs
    whose buffer output 0 may take over (each element is read by the lane that writes it).
    ``parts``: one for each input of an op that joins; a producer may write its part in place, which
    saves the part's cost (``cost`` is that of copying all), and ``emit`` then leaves it out.
    """

    name: str
    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout, ...]
    emit: Callable[[Emitter], None]
    cost: float = 0.0
    view: int | None = None
    view_offset: int = 0
    inplace: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()


#: Most products that are added up in float16 (shaders/matmul/half_sums.glsl, blocks.glsl).
HALF_TERMS = 16

#: Estimated microseconds of a dispatch, and of moving a byte; of a floating point operation.
DISPATCH_COST = 20.0
#: A copy is cheaper than a dispatch.
COPY_COST = 5.0
BYTE_COST = 1e-4
FLOP_COST = 2e-5

Rule = Callable[[Problem], Sequence[Candidate]]

_RULES: dict[type[Op], Rule] = {}


def lowers(*ops: type[Op]) -> Callable[[Rule], Rule]:
    """Registers a rule for op classes. A rule gives no candidate for what it cannot do."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            if op in _RULES:
                raise ValueError(f"{op.__name__} has two lowering rules")
            _RULES[op] = rule
        return rule

    return register


def rule_for(op: type[Op]) -> Rule | None:
    """The rule of an op class, or None: the op runs on the host."""
    return _RULES.get(op)
