"""Elementwise ops as the numbers that shaders know them by (shaders/common/opcodes.glsl)."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.errors import ShapeError
from vknn.graph import Op, TensorType
from vknn.lowering.kit.problem import Epilogue, EpilogueStep
from vknn.ops import elementwise as ew
from vknn.ops.quantized.arithmetic import QuantizedBinary

#: Class of a unary op -> its code and the attributes that the shader gets as a and b.
UNARY: dict[type[Op], tuple[int, tuple[str, ...]]] = {
    ew.Abs: (1, ()),
    ew.Neg: (2, ()),
    ew.Floor: (3, ()),
    ew.Ceil: (4, ()),
    ew.Square: (5, ()),
    ew.Sqrt: (6, ()),
    ew.Rsqrt: (7, ()),
    ew.Exp: (8, ()),
    ew.Log: (9, ()),
    ew.Log10: (10, ()),
    ew.Log1p: (11, ()),
    ew.Expm1: (12, ()),
    ew.Sin: (13, ()),
    ew.Cos: (14, ()),
    ew.Tan: (15, ()),
    ew.Asin: (16, ()),
    ew.Acos: (17, ()),
    ew.Atan: (18, ()),
    ew.Sinh: (19, ()),
    ew.Cosh: (20, ()),
    ew.Asinh: (21, ()),
    ew.Acosh: (22, ()),
    ew.Atanh: (23, ()),
    ew.Reciprocal: (24, ()),
    ew.Tanh: (25, ()),
    ew.Sigmoid: (26, ()),
    ew.Relu: (27, ()),
    ew.Round: (28, ()),
    ew.Trunc: (29, ()),
    ew.Sign: (30, ()),
    ew.Erf: (31, ()),
    ew.Softplus: (32, ()),
    ew.Mish: (33, ()),
    ew.Swish: (34, ()),
    ew.Gelu: (35, ()),
    ew.LeakyRelu: (37, ("alpha",)),
    ew.Elu: (38, ("alpha",)),
    ew.Selu: (39, ("alpha", "gamma")),
    ew.Celu: (40, ("alpha",)),
    ew.HardSigmoid: (41, ("alpha", "beta")),
    ew.HardSwish: (42, ("alpha", "beta")),
    ew.Clip: (43, ("min", "max")),
    ew.Threshold: (44, ("threshold",)),
    ew.Shrink: (45, ("bias", "lambd")),
    ew.Softsign: (46, ()),
}
#: Gelu with approximate="tanh".
GELU_TANH = 36

#: Class of a binary op -> its code.
BINARY: dict[type[Op], int] = {
    ew.Add: 1,
    ew.Sub: 2,
    ew.Mul: 3,
    ew.Div: 4,
    ew.Max: 5,
    ew.Min: 6,
    ew.Pow: 7,
    ew.Atan2: 8,
    ew.Fmod: 9,
    ew.Remainder: 10,
    ew.FloorDiv: 11,
    ew.LogAddExp: 12,
    ew.PRelu: 13,
    ew.Mod: 14,
    ew.Larger: 15,
    ew.Smaller: 16,
}

# EpilogueStep.mode, as shaders/common/epilogue.glsl reads it.
SCALAR_MODE, OPERAND_MODE, CHANNEL_FLAG, REVERSE_FLAG = 1, 2, 16, 32


def unary_step(op: Op) -> EpilogueStep:
    """The constants of a unary op."""
    code, names = UNARY[type(op)]
    if isinstance(op, ew.Gelu) and op.approximate == "tanh":
        code = GELU_TANH
    a, b = (*(float(getattr(op, name)) for name in names), 0.0, 0.0)[:2]
    return EpilogueStep(code, a, b)


def encode_steps(
    fused: ew.Fused, operand_types: Sequence[TensorType], output_type: TensorType
) -> Epilogue:
    """The tail of a fused op as a kernel's epilogue takes it.

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
        raise ShapeError(f"{step.op.type_name}: no tail can read {operand} for {output}")
    return EpilogueStep(code, mode=mode | CHANNEL_FLAG)


def _along(operand: TensorType, axis: int, output: TensorType) -> bool:
    """True where ``operand`` is a vector along ``axis`` of the output."""
    size = output.dims[axis]
    where = axis % output.rank - output.rank
    if operand.size != size or (operand.rank < -where and size > 1):
        return False
    return size == 1 or operand.dims[where] == size
