"""Opcodes of elementwise operators: the one list, from which the shaders' constants are made.

shaders/common/opcode_numbers.glsl is :func:`glsl_constants`, written by tools/opcodes.py.
Tuning keys hold these numbers: an opcode once given stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vknn.graph import Op
from vknn.ops import elementwise as ew

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
