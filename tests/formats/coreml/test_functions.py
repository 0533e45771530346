"""Functions, arithmetic, comparisons and logic of single elements."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.coreml_cases import case, check, values
from tests.coreml_writer import layer, run, run_everywhere

from vknn.errors import ShapeError

SLOW = pytest.mark.slow
SHAPES = [
    (7,),
    (2, 1, 3, 2, 2),
    *(pytest.param(s, marks=SLOW) for s in ((1,), (3, 5), (2, 3, 4), (1, 5, 2, 3))),
]
#: Pairs and triples of shapes that broadcast.
PAIRS = [
    ((1,), (7,)),
    ((2, 1, 4), (3, 1)),
    ((2, 1, 3, 2, 2), (1, 4, 1, 1, 2)),
    pytest.param((3, 5), (5,), marks=SLOW),
    pytest.param((4,), (2, 3, 4), marks=SLOW),
    pytest.param((1, 5, 1, 3), (2, 1, 4, 1), marks=SLOW),
    pytest.param((3, 5), (3, 5), marks=SLOW),
]
ANY = {
    "ceil": np.ceil,
    "floor": np.floor,
    "sign": np.sign,
    "round": np.around,
    "exp2": np.exp2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "erf": np.vectorize(math.erf),
}
INSIDE = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}


@pytest.mark.parametrize("shape", SHAPES)
def test_functions(shape: tuple[int, ...]) -> None:
    x = values(*shape) * 3
    feeds = {"x": x, "inside": np.tanh(x) * np.float32(0.99), "above": np.abs(x) + 1}
    wide = {name: np.asarray(a, np.float64) for name, a in feeds.items()}
    cases = [case(kind, f(wide["x"])) for kind, f in ANY.items()]
    cases += [case(kind, f(wide["inside"]), "inside") for kind, f in INSIDE.items()]
    cases += [case("acosh", np.arccosh(wide["above"]), "above")]
    for low, high in ((-1, 1), (0, 0), (0.5, math.inf), (1, -1)):
        clipped = np.minimum(np.maximum(x, low), high)
        cases.append(case("clip", clipped, minVal=low, maxVal=high))
    check(feeds, cases, tolerance=1e-6)


def test_special_numbers() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0, 100, -100, 1e30, np.inf, -np.inf, 1, -1])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        cases = [case(k, f(x)) for k, f in ANY.items() if k not in ("sin", "cos", "tan")]
        cases += [case(kind, f(x)) for kind, f in INSIDE.items()]
        cases += [case("acosh", np.arccosh(x))]
        check({"x": x}, cases)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_arithmetic(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = values(*one) * 4, values(*other, seed=1) * 2
    feeds = {"a": a, "b": b, "positive": np.abs(a)}
    cases = [
        case(f"{name}Broadcastable", f(a, b), "a", "b")
        for name, f in {
            "add": np.add,
            "subtract": np.subtract,
            "multiply": np.multiply,
            "divide": np.divide,
            "floorDiv": lambda a, b: np.floor(a / b),
            "mod": np.mod,
            "min": np.minimum,
            "max": np.maximum,
        }.items()
    ]
    wide = np.abs(a).astype(np.float64) ** b
    check(feeds, [*cases, case("powBroadcastable", wide, "positive", "b")])


def test_powers_and_quotients_of_whole_numbers() -> None:
    a = np.array([-3, -2, -2, 0, 0, 2, -1, 5, -7, 7, -6, 6], np.float32)
    b = np.array([2, 3, -1, 0, 2, -2, 5, 0, 2, -2, 3, -3], np.float32)
    with np.errstate(all="ignore"):
        cases = [
            case("powBroadcastable", a**b, "a", "b"),
            case("divideBroadcastable", a / b, "a", "b"),
            case("floorDivBroadcastable", np.floor(a / b), "a", "b"),
            case("modBroadcastable", np.where(b == 0, np.nan, np.mod(a, b)), "a", "b"),
        ]
        check({"a": a, "b": b}, cases)


COMPARISONS = {
    "equal": np.equal,
    "notEqual": np.not_equal,
    "lessThan": np.less,
    "lessEqual": np.less_equal,
    "greaterThan": np.greater,
    "greaterEqual": np.greater_equal,
}


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_comparisons_and_logic(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = np.rint(values(*one)), np.rint(values(*other, seed=1))
    cases = [case(kind, f(a, b), "a", "b") for kind, f in COMPARISONS.items()]
    cases += [case(kind, f(a, 1.0), "a", alpha=1.0) for kind, f in COMPARISONS.items()]
    cases += [case(kind, f(a, 0.0), "a") for kind, f in COMPARISONS.items()]
    # A second input is compared with, whatever alpha says.
    cases += [case(kind, f(a, b), "a", "b", alpha=1.0) for kind, f in COMPARISONS.items()]
    logic = {
        "logicalAnd": np.logical_and,
        "logicalOr": np.logical_or,
        "logicalXor": np.logical_xor,
    }
    cases += [case(kind, f(a, b), "a", "b") for kind, f in logic.items()]
    cases += [case("logicalNot", a == 0, "a")]
    check({"a": a, "b": b}, cases, tolerance=0)


def test_whatever_is_not_zero_is_true() -> None:
    x = np.array([0, -0.0, 0.3, -2, np.nan, np.inf, 1e-30], np.float32)
    true = np.array([0, 0, 1, 1, 1, 1, 1], np.float32)
    ones = np.ones(7, np.float32)
    cases = [
        case("logicalNot", 1 - true),
        case("logicalAnd", true, "x", "ones"),
        case("logicalOr", true, "x", "x"),
        case("logicalXor", 1 - true, "x", "ones"),
        case("whereBroadcastable", true, "x", "ones", "zeros"),
    ]
    check({"x": x, "ones": ones, "zeros": 0 * ones}, cases, tolerance=0)


@pytest.mark.parametrize(
    "shapes",
    [
        ((4,), (4,), (4,)),
        ((2, 1), (3,), (1,)),
        ((1,), (2, 3), (3,)),
        ((2, 3, 4), (4,), (3, 1)),
        ((5, 1, 1), (1, 2, 1), (1, 1, 3)),
        ((1, 2, 1, 2, 1), (2, 1, 3), (2, 1, 1, 1)),
    ],
)
def test_where(shapes: tuple[tuple[int, ...], ...]) -> None:
    condition = (values(*shapes[0]) > 0) * np.float32(2.5)
    x, y = values(*shapes[1], seed=1), values(*shapes[2], seed=2)
    wanted = np.where(condition != 0, x, y)
    feeds = {"c": condition, "x": x, "y": y}
    check(feeds, [case("whereBroadcastable", wanted, "c", "x", "y")], tolerance=0)


def test_where_does_not_blend() -> None:
    x = np.array([1, np.nan, np.inf], np.float32)
    feeds = {"c": np.array([1, 0, 0], np.float32), "x": x, "z": np.zeros(3, np.float32)}
    wanted = {"y": np.array([1, 0, 0], np.float32)}
    found = run_everywhere(layer("whereBroadcastable", ("c", "x", "z")), feeds)
    np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize("kind", ["addBroadcastable", "lessThan", "logicalAnd"])
def test_shapes_that_do_not_broadcast(kind: str) -> None:
    feeds = {"a": np.zeros((2, 3), np.float32), "b": np.zeros((2,), np.float32)}
    with pytest.raises(ShapeError, match=kind):
        run(layer(kind, ("a", "b")), feeds)
