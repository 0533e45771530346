"""Shape expressions, held against values of ncnn's own evaluator."""

from __future__ import annotations

import pytest

from vknn.formats.layer_errors import Malformed
from vknn.formats.ncnn.shape_expression import evaluate

#: Two blobs, (c, h, w) and (c, d, h, w).
SHAPES = [(44, 200, 100), (4, 2, 20, 10)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("+(trunc(*(0w,0.5)),-(0c,10)),floor(/(1h,0.5)),+(0c,1c),round(2.0)", (84, 40, 48, 2)),
        ("floor(//(0w,2.99)),round(+(0w,1.01)),trunc(-(0h,1.9))", (33, 101, 198)),
        ("round(*(abs(asin(sin(0w))),10.11)),ceil(*(abs(acos(cos(+(0w,3)))),10.11))", (5, 25)),
        ("ceil(pow(fmod(atan2(0w,1d),1c),14.14)),floor(logaddexp(remainder(0c,10),6))", (495, 6)),
        ("rshift(lshift(xor(or(and(1d,18),9),4),4),2)", (60,)),
        ("ceil(*(rsqrt(+(+(sign(1w),10),*(sign(-(neg(1d)),0.5),3))),100))", (36,)),
        # Ints divide towards zero, floats downwards: of one of each the result is a float too.
        ("//(-7,2),//(-7.5,2),//(//(7.5,2),-2),//(min(7,7.5),-2)", (-3, -4, -2, -4)),
        # "2.0" is an int, "1e2" is not.
        ("//(-7,2.0),//(-7,2e0),//(-7,2e1),//(-700,1e3)", (-3, -3, -1, -1)),
        # Bit by bit a float is its bits.
        (
            "or(0,0.5),rshift(1e2,24),rshift(64,33),sign(-2.5),and(6.0,3)",
            (1056964608, 66, 32, -1, 2),
        ),
    ],
)
def test_values(expression: str, expected: tuple[int, ...]) -> None:
    assert evaluate(expression, SHAPES) == expected


@pytest.mark.parametrize(
    "expression", ["0w,1h,2c", "//(0w,-(0w,0w))", "1c,#(0w,1)", "1c,+(qwq,1w)", "+(1)"]
)
def test_refused(expression: str) -> None:
    with pytest.raises(Malformed, match="expression"):
        evaluate(expression, SHAPES)
