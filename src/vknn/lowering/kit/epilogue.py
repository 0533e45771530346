"""Epilogue: fused elementwise steps as a kernel's specialization constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType
from vknn.lowering.kit.opcodes import BINARY, GELU_TANH, UNARY
from vknn.lowering.kit.parameters import Number
from vknn.lowering.kit.problem import Epilogue, EpilogueStep, LoweringOptions, Problem
from vknn.ops import elementwise as ew
from vknn.ops.quantized.arithmetic import QuantizedBinary
from vknn.plan import DeviceLimits

# EpilogueStep.mode, as shaders/common/epilogue.glsl reads it.
SCALAR_MODE, OPERAND_MODE, CHANNEL_FLAG, REVERSE_FLAG = 1, 2, 16, 32

#: Steps that a shader has specialization constants for, by the names of these.
EPILOGUE_STEPS = 6
_STEP_CONSTANTS = [
    (f"ep_code_{n}", f"ep_a_{n}", f"ep_b_{n}", f"ep_mode_{n}") for n in range(EPILOGUE_STEPS)
]

#: Unary operators of a few instructions; the others take divisions, roots or exponentials.
_CHEAP = (
    *(ew.Abs, ew.Neg, ew.Floor, ew.Ceil, ew.Square, ew.Relu, ew.Round, ew.Trunc, ew.Sign),
    *(ew.LeakyRelu, ew.HardSigmoid, ew.HardSwish, ew.Clip, ew.Threshold, ew.Shrink),
)
_CHEAP_CODES = frozenset(UNARY[op][0] for op in _CHEAP)
#: Instructions for an element of the others: 25 to 37 by RADV's machine code for RDNA 2.
_DEAR = 28.0


def epilogue_work(epilogue: Epilogue) -> float:
    """Instructions of a GPU's lane for an element's steps, those of a few not counted."""
    unary = [step for step in epilogue.steps if step.mode == 0]
    return _DEAR * sum(step.code not in _CHEAP_CODES for step in unary)


def epilogue_constants(epilogue: Epilogue) -> dict[str, Number]:
    """Specialization constants of an epilogue, as shaders/common/epilogue.glsl names them."""
    if len(epilogue.steps) > EPILOGUE_STEPS:
        raise ValueError(f"an epilogue has {len(epilogue.steps)} steps, room for {EPILOGUE_STEPS}")
    constants: dict[str, Number] = {}
    for (code, a, b, mode), step in zip(_STEP_CONSTANTS, epilogue.steps, strict=False):
        constants[code], constants[mode] = step.code, step.mode
        constants[a], constants[b] = float(step.a), float(step.b)
    return constants


def unary_step(op: Op) -> EpilogueStep:
    """Constants of a unary op as an epilogue step."""
    code, names = UNARY[type(op)]
    if isinstance(op, ew.Gelu) and op.approximate == "tanh":
        code = GELU_TANH
    a, b = (*(float(getattr(op, name)) for name in names), 0.0, 0.0)[:2]
    return EpilogueStep(code, a, b)


def problem_of(
    op: Op,
    types: Sequence[TensorType | None],
    outputs: tuple[TensorType, ...],
    constants: Sequence[np.ndarray | None],
    limits: DeviceLimits,
    options: LoweringOptions,
) -> Problem:
    """Problem of an op on these inputs: of a fused one the base op, its epilogue apart."""
    types, constants = tuple(types), tuple(constants)
    if not isinstance(op, ew.Fused):
        return Problem(op, types, outputs, constants, limits, options)
    count = len(types) - op.operand_count
    operands = tuple(t for t in types[count:] if t is not None)
    epilogue = encode_steps(op, operands, outputs[0])
    base = op.base.bound(*types[:count])
    return Problem(op.base, types[:count], base, constants[:count], limits, options, epilogue)


def encode_steps(
    fused: ew.Fused, operand_types: Sequence[TensorType], output_type: TensorType
) -> Epilogue:
    """Epilogue of a fused op: its steps as specialization constants.

    An operand has the shape of the output, or is a vector along the base op's channel axis (all
    other axes 1); raises ShapeError for any other.
    """
    if fused.steps and isinstance(fused.steps[0].op, QuantizedBinary):
        (step,) = fused.steps
        assert isinstance(step.op, QuantizedBinary)
        added = step.op.swapped() if step.reverse else step.op
        return Epilogue((), tuple(operand_types), added)
    fusion = type(fused.base).fusion
    axis = None if fusion is None else fusion.channel_axis
    steps = tuple(_encode(step, operand_types, output_type, axis) for step in fused.steps)
    return Epilogue(steps, tuple(operand_types))


def _encode(
    step: ew.FusedStep, operands: Sequence[TensorType], output: TensorType, axis: int | None
) -> EpilogueStep:
    if isinstance(step.op, ew.Unary):
        return unary_step(step.op)
    assert isinstance(step.op, ew.Binary)
    code = BINARY[type(step.op)]
    reverse = REVERSE_FLAG if step.reverse else 0
    if step.operand is None:
        scalar = 0.0 if step.scalar is None else float(step.scalar)
        return EpilogueStep(code, scalar, mode=SCALAR_MODE | reverse)
    operand = operands[step.operand]
    mode = (OPERAND_MODE + step.operand) | reverse
    if operand.size == output.size:
        return EpilogueStep(code, mode=mode)
    if axis is None or not _along(operand, axis, output):
        raise ShapeError(f"{step.op.type_name}: no epilogue can read {operand} for {output}")
    return EpilogueStep(code, mode=mode | CHANNEL_FLAG)


def _along(operand: TensorType, axis: int, output: TensorType) -> bool:
    """True where ``operand`` is a vector along ``axis`` of the output."""
    size = output.dims[axis]
    where = axis % output.rank - output.rank
    if operand.size != size or (operand.rank < -where and size > 1):
        return False
    return size == 1 or operand.dims[where] == size
