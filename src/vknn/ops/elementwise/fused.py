"""Fused: an operator with an epilogue of elementwise steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import require
from vknn.ops.elementwise.binary import Binary
from vknn.ops.elementwise.unary import Unary
from vknn.ops.quantized.arithmetic import QuantizedBinary


@dataclass(frozen=True)
class FusedStep:
    """Step of an epilogue: one elementwise operator, applied to the running value v.

    A unary op has neither ``operand`` nor ``scalar``. A binary op has one of them: ``operand``
    counts the extra inputs of the fused op, ``scalar`` is a number. ``reverse``: v is the second
    argument. Quantized ops take one step: the sum of two tensors (QuantizedBinary).
    """

    op: Unary | Binary | QuantizedBinary
    operand: int | None = None
    reverse: bool = False
    scalar: float | None = None

    def __post_init__(self) -> None:
        given = (self.operand is not None) + (self.scalar is not None)
        if isinstance(self.op, Binary | QuantizedBinary):
            require(given == 1, f"a fused {self.op.type_name} needs an operand or a scalar")
        elif isinstance(self.op, Unary):
            require(given == 0 and not self.reverse, f"{self.op.type_name} takes no operand")
        else:
            raise ShapeError(f"{type(self.op).__name__} cannot be a step of an epilogue")


@attributes
class Fused(Op):
    """base, then each step on its (only) output; inputs: those of base, then the steps' operands.

    An operand must broadcast to the output without changing its shape. Each step rounds to the
    dtype of the output, as the ops would one by one.
    """

    base: Op
    steps: tuple[FusedStep, ...] = ()

    def __post_init__(self) -> None:
        require(not isinstance(self.base, Fused), "a Fused op cannot be the base of another")
        require(type(self.base).fusion is not None, f"{self.base.type_name} takes no epilogue")

    @property
    def type_name(self) -> str:
        """The names of base and steps, joined by "+"."""
        return "+".join([self.base.type_name, *(s.op.type_name for s in self.steps)])

    @property
    def operand_count(self) -> int:
        """Number of extra inputs that the steps read."""
        return max((s.operand + 1 for s in self.steps if s.operand is not None), default=0)

    def split(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The inputs of base and the operands of the steps."""
        count = len(inputs) - self.operand_count
        require(count >= 0, f"{self.type_name}: {len(inputs)} inputs are too few")
        return inputs[:count], inputs[count:]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        own, extra = self.split(inputs)
        return (self._stepped(self.base.infer(*own), extra),)

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        own, extra = self.split(inputs)
        return (self._stepped(self.base.bound(*own), extra),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        own, extra = self.split(inputs)
        (value,) = self.base.reference(*own)
        for step in self.steps:
            arguments = _ordered(step, value, _operand(step, extra, value))
            (value,) = step.op.reference(*arguments)
        return (value,)

    def _stepped(self, results: tuple[TensorType, ...], extra: tuple[Any, ...]) -> TensorType:
        require(len(results) == 1, f"{self.base.type_name} has {len(results)} outputs: no epilogue")
        (value,) = results
        for step in self.steps:
            other: TensorType | None = None
            if step.operand is not None:
                other = extra[step.operand]
                require(other is not None, f"{self.type_name}: operand {step.operand} is missing")
            elif step.scalar is not None:
                other = TensorType((), value.dtype)
            (result,) = step.op.infer(*_ordered(step, value, other))
            if result != value:
                name = step.op.type_name
                raise ShapeError(f"{self.type_name}: {name} turns {value} into {result}")
        return value


def _operand(step: FusedStep, extra: tuple[Any, ...], value: np.ndarray) -> np.ndarray | None:
    if step.operand is not None:
        return extra[step.operand]
    return None if step.scalar is None else np.asarray(step.scalar, DType.of(value).numpy)


def _ordered(step: FusedStep, value: Any, other: Any) -> tuple[Any, ...]:
    if other is None:
        return (value,)
    return (other, value) if step.reverse else (value, other)
