"""Branches and loops: against the specification's pseudo-code, run in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, model, network, session, weights
from tests.helpers import shared_device

from vknn.errors import ModelFormatError, ShapeError, VknnError

BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]
_names = iter(range(10**6))


def step(kind: str, inputs: Sequence[str], output: str, **params: Any) -> Any:
    return layer(kind, inputs, [output], name=f"{kind} {next(_names)}", **params)


def constant(output: str, value: float) -> Any:
    return step("loadConstantND", [], output, shape=[1], data=weights([value]))


def copy(source: str, target: str) -> Any:
    return step("copy", [source], target)


def adds(blob: str, by: float) -> list[Any]:
    """blob += by, as the format writes it: into another blob, and copied back."""
    made = f"{blob}+{next(_names)}"
    return [
        constant(f"{made}/by", by),
        step("addBroadcastable", [blob, f"{made}/by"], made),
        copy(made, blob),
    ]


def less(blob: str, limit: float, output: str) -> Any:
    return step("lessThan", [blob], output, alpha=limit)


def branch(condition: str, yes: Sequence[Any], no: Sequence[Any] | None = None) -> Any:
    params = {"ifBranch": network(yes)}
    if no is not None:
        params["elseBranch"] = network(no)
    return layer("branch", [condition], [], name=f"branch {next(_names)}", **params)


def loop(
    body: Sequence[Any],
    *,
    test: Sequence[Any] | None = None,
    variable: str = "",
    most: int = 0,
    count: str | None = None,
) -> Any:
    params: dict[str, Any] = {"bodyNetwork": network(body), "maxLoopIterations": most}
    if test is not None:
        params |= {"conditionNetwork": network(test), "conditionVar": variable}
    inputs = [] if count is None else [count]
    return layer("loop", inputs, [], name=f"loop {next(_names)}", **params)


def end(kind: str) -> Any:
    return layer(kind, [], [], name=f"{kind} {next(_names)}")


def answer(
    layers: Sequence[Any], backend: str, outputs: Sequence[str] = ("y",), **feeds: Any
) -> dict[str, np.ndarray]:
    arrays = {n: np.atleast_1d(np.asarray(a, np.float32)) for n, a in feeds.items()}
    message = model(layers, {n: a.shape for n, a in arrays.items()}, outputs)
    device = "numpy" if backend == "numpy" else shared_device()
    with session(message, device) as s:
        first = s.run(arrays)
        again = s.run(arrays)
    assert all(np.array_equal(first[n], again[n]) for n in first)
    return first


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flag", [0.0, 1.0, -0.5, 3.0])
@pytest.mark.parametrize("known", [False, True])
def test_branch(flag: float, known: bool, backend: str) -> None:
    parts = [
        *([constant("flag", flag)] if known else []),
        branch("flag", [*adds("x", 1), copy("x", "y")], [*adds("x", 10), copy("x", "y")]),
    ]
    feeds = {} if known else {"flag": flag}
    found = answer([copy("in", "x"), *parts], backend, **{"in": [1, 2]}, **feeds)
    assert found["y"].tolist() == ([2, 3] if flag else [11, 12])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("flag", [1e-7, -9e-7, 2e-6, -2e-6, np.nan])
def test_conditions_close_to_zero_are_false(flag: float, known: bool, backend: str) -> None:
    """NeuralNetwork.proto: the ifBranch runs if the absolute value is greater than 1e-6."""
    start = [constant("flag", flag)] if known else []
    feeds = {} if known else {"flag": flag}
    body = branch("flag", [copy("x", "y")], [copy("z", "y")])
    found = answer([*start, body], backend, x=[1], z=[2], **feeds)
    assert found["y"].tolist() == ([1] if abs(flag) > 1e-6 else [2])
    # A while loop ends with such a condition: it makes y a tenth of itself in each round.
    tenth = [constant("0.1", 0.1), step("multiplyBroadcastable", ["y", "0.1"], "t"), copy("t", "y")]
    layers = [copy("x", "y"), loop(tenth, test=[copy("y", "c")], variable="c")]
    ended = answer(layers, backend, x=1)["y"]
    assert 1e-8 < ended.item() <= 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_without_an_else(backend: str) -> None:
    layers = [copy("x", "y"), branch("flag", adds("y", 5))]
    for flag in (0, 1):
        found = answer(layers, backend, x=[1, 2], flag=flag)["y"]
        assert found.tolist() == [1 + 5 * flag, 2 + 5 * flag]


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_in_branches(backend: str) -> None:
    inner = branch("b", adds("y", 1), adds("y", 2))
    other = branch("b", adds("y", 4), [branch("a", [], adds("y", 8))])
    layers = [copy("x", "y"), branch("a", [inner, *adds("y", 100)], [other, *adds("y", 200)])]
    for a in (0, 1):
        for b in (0, 1):
            wanted = (100 + (1 if b else 2)) if a else (200 + (4 if b else 8))
            assert answer(layers, backend, x=0, a=a, b=b)["y"].tolist() == [wanted]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rounds", [0, 1, 5, 31, 33, 70])
@pytest.mark.parametrize("way", ["field", "constant", "input"])
def test_for(rounds: int, way: str, backend: str) -> None:
    body = adds("y", 2)
    layers = [copy("x", "y")]
    feeds: dict[str, Any] = {"x": [1, -1]}
    if way == "field":
        layers += [loop(body, most=rounds)]
    elif way == "constant":
        layers += [constant("n", rounds), loop(body, count="n", most=3)]
    else:
        layers += [loop(body, count="n", most=3)]
        feeds["n"] = rounds
    assert answer(layers, backend, **feeds)["y"].tolist() == [1 + 2 * rounds, -1 + 2 * rounds]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", [0, 3, 7, 8, 40])
@pytest.mark.parametrize("most", [0, 2, 50])
@pytest.mark.parametrize("known", [False, True])
def test_while(first: int, most: int, known: bool, backend: str) -> None:
    test = [less("i", 8, "go on")]
    start = [constant("first", first)] if known else []
    layers = [
        *start, copy("x", "y"), copy("first", "i"),
        loop([*adds("i", 1), *adds("y", 10)], test=test, variable="go on", most=most),
    ]  # fmt: skip
    feeds: dict[str, Any] = {"x": 0} if known else {"x": 0, "first": first}
    found = answer(layers, backend, ["y", "i"], **feeds)
    i, y, rounds = first, 0, 0
    while i < 8 and (most == 0 or rounds < most):
        i, y, rounds = i + 1, y + 10, rounds + 1
    assert (found["y"].tolist(), found["i"].tolist()) == ([y], [i])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("known", [False, True])
def test_a_count_and_a_condition(known: bool, backend: str) -> None:
    """An input overrides the field, be it 0, and joins the condition."""
    for count in (0, 2, 9):
        start = [constant("n", count)] if known else []
        both = loop(adds("y", 1), test=[less("y", 5, "c")], variable="c", count="n", most=1)
        layers = [*start, copy("x", "y"), both]
        feeds: dict[str, Any] = {"x": 0} if known else {"x": 0, "n": count}
        assert answer(layers, backend, **feeds)["y"].tolist() == [min(count, 5)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("known", [False, True])
def test_break_and_continue(known: bool, backend: str) -> None:
    start = [constant("first", 0)] if known else []
    layers = [
        *start, copy("first", "i"), copy("first", "y"), copy("first", "z"),
        loop(
            [
                *adds("i", 1),
                step("equal", ["i"], "is six", alpha=6),
                branch("is six", [end("loopBreak")]),
                step("equal", ["i"], "is three", alpha=3),
                branch("is three", [end("loopContinue")], adds("z", 1)),
                step("addBroadcastable", ["y", "i"], "sum"),
                copy("sum", "y"),
            ],
            most=20,
        ),
    ]  # fmt: skip
    feeds = {"x": 0} if known else {"x": 0, "first": 0}
    found = answer(layers, backend, ["y", "i", "z"], **feeds)
    assert (found["y"], found["i"], found["z"]) == ([1 + 2 + 4 + 5], [6], [4])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("known", [False, True])
def test_loops_in_loops(known: bool, backend: str) -> None:
    """The inner loop's break ends that alone; the outer one's length depends on its results."""
    start = [constant("zero", 0)] if known else []
    inner = loop(
        [*adds("j", 1), *adds("y", 1), step("greaterThan", ["j", "i"], "past"),
         branch("past", [end("loopBreak")])],
        most=10,
    )  # fmt: skip
    layers = [
        *start, copy("zero", "i"), copy("zero", "y"), copy("zero", "j"),
        loop([copy("zero", "j"), inner, *adds("i", 1)], test=[less("y", 12, "c")], variable="c"),
    ]  # fmt: skip
    found = answer(layers, backend, ["y", "i"], **({"x": 0} if known else {"x": 0, "zero": 0}))
    y = i = 0
    while y < 12:
        y, i = y + i + 1, i + 1
    assert (found["y"], found["i"]) == ([y], [i])


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_that_change_from_round_to_round(backend: str) -> None:
    body = [step("concatND", ["y", "x"], "longer", axis=0), copy("longer", "y")]
    layers = [copy("x", "y"), loop(body, count="n")]
    found = answer(layers, backend, x=[1, 2], n=4)["y"]
    assert found.tolist() == [1, 2] * 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_that_data_decide_in_a_loop(backend: str) -> None:
    """A counter decides where a slice begins: each round has a graph of its own."""
    piece = step("sliceDynamic", ["x", "i", "e"], "piece", squeezeMasks=[False])
    body = [piece, step("addBroadcastable", ["y", "piece"], "sum"), copy("sum", "y"),
            *adds("i", 1), *adds("e", 1)]  # fmt: skip
    layers = [copy("zero", "i"), copy("one", "e"), copy("zero", "y"), loop(body, count="n")]
    found = answer(layers, backend, x=[1, 2, 4, 8, 16], zero=0, one=1, n=4)["y"]
    assert found.tolist() == [15]


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_data_choose(backend: str) -> None:
    """Layers after a shape that depends on data are built when it is known, in a branch too."""
    found = [step("whereNonZero", ["x"], "places"), step("getShape", ["places"], "size")]
    found += [step("reduceSum", ["places"], "total", reduceAll=True)]
    layers = [branch("flag", [*found, step("addBroadcastable", ["size", "total"], "y")],
                     [copy("x", "y")])]  # fmt: skip
    assert answer(layers, backend, x=[0, 3, 0, 5], flag=1)["y"].tolist() == [2 + 4, 1 + 4]


def test_a_loop_that_cannot_end() -> None:
    for test in ([constant("c", 1)], [copy("flag", "c")], [less("y", 1e9, "c")]):
        layers = [copy("x", "y"), loop(adds("y", 0), test=test, variable="c")]
        with pytest.raises(ShapeError, match=r"'loop.*cannot end"):
            answer(layers, "numpy", x=1, flag=1)
    layers = [copy("x", "y"), loop(adds("y", 1), test=[copy("flag", "c")], variable="c")]
    with pytest.raises(ShapeError, match=r"'loop.*cannot end"):
        answer(layers, "numpy", x=1, flag=1)
    with pytest.raises(ShapeError, match=r"far too many"):
        answer([copy("x", "y"), loop(adds("y", 1), most=1 << 62)], "numpy", x=1)


def test_a_loop_that_only_a_break_ends() -> None:
    body = [*adds("y", 1), less("y", 50, "low"), branch("low", [], [end("loopBreak")])]
    layers = [copy("x", "y"), loop(body, test=[constant("c", 1)], variable="c")]
    assert answer(layers, "numpy", x=0)["y"].tolist() == [50]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_counts_that_are_none(bad: float) -> None:
    with pytest.raises(ShapeError, match="no number of iterations"):
        answer([copy("x", "y"), loop(adds("y", 1), count="n")], "numpy", x=1, n=bad)


def test_negative_counts_are_none_at_all() -> None:
    assert answer([copy("x", "y"), loop(adds("y", 1), count="n")], "numpy", x=1, n=-3)["y"] == [1]


def test_conditions_are_single_values() -> None:
    with pytest.raises(ShapeError, match=r"'flag' decides, but has 2 values"):
        answer([copy("x", "y"), branch("flag", adds("y", 1))], "numpy", x=1, flag=[1, 0])


def test_blobs_that_only_one_way_makes() -> None:
    layers = [branch("flag", [copy("x", "y")], [copy("x", "z")])]
    assert answer(layers, "numpy", x=[3], flag=1)["y"].tolist() == [3]
    with pytest.raises(ModelFormatError, match="'y'"):
        answer(layers, "numpy", x=[3], flag=0)
    layers = [branch("flag", [copy("x", "t")], []), step("addBroadcastable", ["t", "x"], "y")]
    assert answer(layers, "numpy", x=[3], flag=1)["y"].tolist() == [6]
    with pytest.raises(ModelFormatError, match=r"'addBroadcastable.*reads 't'"):
        answer(layers, "numpy", x=[3], flag=0)
    layers = [loop([copy("x", "y")], count="n")]
    with pytest.raises(ModelFormatError, match="'y'"):
        answer(layers, "numpy", x=[3], n=0)


@pytest.mark.parametrize(
    "layers",
    [
        [branch("flag", [copy("nothing", "y")])],
        [loop([copy("y", "z"), copy("x", "y")], most=2)],
        [copy("x", "y"), loop([copy("x", "z")], test=[copy("z", "c")], variable="c")],
        [copy("x", "y"), loop([], test=[copy("x", "c")], variable="other")],
        [copy("x", "y"), loop([], test=[copy("x", "c")], variable="")],
        [copy("x", "y"), end("loopBreak")],
        [copy("x", "y"), branch("flag", [end("loopContinue")])],
        [copy("x", "y"), loop([], test=[end("loopBreak")], variable="x")],
        [copy("x", "y"), layer("loop", [], [], maxLoopIterations=2)],
        [copy("x", "y"), layer("branch", ["flag"], [])],
        [copy("x", "y"), layer("branch", [], [], ifBranch=network([]))],
        [layer("branch", ["flag"], ["y"], ifBranch=network([copy("x", "y")]))],
        [copy("x", "y"), loop([layer("innerProduct", ["x"], ["y"])], most=1),
         layer("branch", ["flag", "x"], [], ifBranch=network([]))],
    ],
)  # fmt: skip
def test_what_is_refused_when_it_is_read(layers: list[Any]) -> None:
    with pytest.raises(ModelFormatError):
        session(model(layers, {"x": (1,), "flag": (1,)}))


def test_unknown_layers_inside_are_found() -> None:
    custom = layer("custom", ["x"], ["y"], className="Mine", name="mine")
    with pytest.raises(VknnError, match=r"'Mine' is not registered"):
        session(model([branch("x", [loop([custom], most=2)])], {"x": (1,)}))
