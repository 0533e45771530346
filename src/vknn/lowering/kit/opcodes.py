"""Opcodes of elementwise operators: the one list, from which the shaders' constants are made.

shaders/common/opcode_numbers.glsl is :func:`glsl_constants`, written by tools/opcodes.py.
Tuning keys hold these numbers: an opcode once given stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vknn.graph import Op
from vknn.ops.elementwise import activation, binary, unary

#: Class of a unary op -> its code and the attributes that the shader gets as a and b.
UNARY: dict[type[Op], tuple[int, tuple[str, ...]]] = {
    unary.Abs: (1, ()),
    unary.Neg: (2, ()),
    unary.Floor: (3, ()),
    unary.Ceil: (4, ()),
    unary.Square: (5, ()),
    unary.Sqrt: (6, ()),
    unary.Rsqrt: (7, ()),
    unary.Exp: (8, ()),
    unary.Log: (9, ()),
    unary.Log10: (10, ()),
    unary.Log1p: (11, ()),
    unary.Expm1: (12, ()),
    unary.Sin: (13, ()),
    unary.Cos: (14, ()),
    unary.Tan: (15, ()),
    unary.Asin: (16, ()),
    unary.Acos: (17, ()),
    unary.Atan: (18, ()),
    unary.Sinh: (19, ()),
    unary.Cosh: (20, ()),
    unary.Asinh: (21, ()),
    unary.Acosh: (22, ()),
    unary.Atanh: (23, ()),
    unary.Reciprocal: (24, ()),
    unary.Tanh: (25, ()),
    activation.Sigmoid: (26, ()),
    activation.Relu: (27, ()),
    unary.Round: (28, ()),
    unary.Trunc: (29, ()),
    unary.Sign: (30, ()),
    unary.Erf: (31, ()),
    activation.Softplus: (32, ()),
    activation.Mish: (33, ()),
    activation.Swish: (34, ()),
    activation.Gelu: (35, ()),
    activation.LeakyRelu: (37, ("alpha",)),
    activation.Elu: (38, ("alpha",)),
    activation.Selu: (39, ("alpha", "gamma")),
    activation.Celu: (40, ("alpha",)),
    activation.HardSigmoid: (41, ("alpha", "beta")),
    activation.HardSwish: (42, ("alpha", "beta")),
    activation.Clip: (43, ("min", "max")),
    activation.Threshold: (44, ("threshold",)),
    activation.Shrink: (45, ("bias", "lambd")),
    activation.Softsign: (46, ()),
}
#: Gelu with approximate="tanh".
GELU_TANH = 36

#: Class of a binary op -> its code.
BINARY: dict[type[Op], int] = {
    binary.Add: 1,
    binary.Sub: 2,
    binary.Mul: 3,
    binary.Div: 4,
    binary.Max: 5,
    binary.Min: 6,
    binary.Pow: 7,
    binary.Atan2: 8,
    binary.Fmod: 9,
    binary.Remainder: 10,
    binary.FloorDiv: 11,
    binary.LogAddExp: 12,
    binary.PRelu: 13,
    binary.Mod: 14,
    binary.Larger: 15,
    binary.Smaller: 16,
}


def glsl_constants() -> str:
    """The text of shaders/common/opcode_numbers.glsl: OP_<NAME> of unary, BOP_<NAME> of binary."""
    lines = [
        "// Opcodes of the elementwise operators, written by tools/opcodes.py from",
        "// src/vknn/lowering/kit/opcodes.py.",
        "",
        "#ifndef VKNN_OPCODE_NUMBERS_GLSL",
        "#define VKNN_OPCODE_NUMBERS_GLSL",
        "",
        *(f"#define OP_{name} {code}" for name, code in _unary()),
        "",
        *(f"#define BOP_{_constant_name(op)} {code}" for op, code in BINARY.items()),
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _unary() -> Iterator[tuple[str, int]]:
    codes = {_constant_name(op): code for op, (code, _) in UNARY.items()}
    yield from sorted((codes | {"GELU_TANH": GELU_TANH}).items(), key=lambda item: item[1])


def _constant_name(op: type[Op]) -> str:
    """LOG_ADD_EXP for LogAddExp, PRELU for PRelu."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op.__name__).upper()
