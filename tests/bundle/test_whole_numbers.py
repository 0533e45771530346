"""int64 within a network: computed as int32 in a bundle where all numbers have to fit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.helpers import shared_device
from tests.onnx_writer import graph, model, node, save, value

import vknn
from vknn import reference
from vknn.bundle.ends import narrowed
from vknn.bundle.runner import Runner
from vknn.bundle.whole_numbers import MOST, bounds_of
from vknn.errors import ExportError, InputError
from vknn.formats.onnx.element_types import BY_DTYPE
from vknn.graph import DType, Graph, GraphBuilder, Op, TensorType, Value
from vknn.ops.elementwise.activation import Clip, Relu
from vknn.ops.elementwise.binary import Add, Cast, FloorDiv, Max, Min, Mod, Mul, Sub
from vknn.ops.elementwise.logic import Equal, Where
from vknn.ops.elementwise.unary import Abs, Neg, Sign
from vknn.ops.indexing.gather import Bounded, Gather
from vknn.ops.indexing.topk import ArgMax, TopK
from vknn.ops.movement.shape import Concat, Pad
from vknn.ops.reduction import CumSum, ReduceMax, ReduceSum

pytestmark = pytest.mark.glsl
TABLE = np.arange(20, dtype=np.float32).reshape(10, 2)
IDS = np.array([[4, 1, 5, 1], [0, -1, 3, 2]])
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
INT64 = DType.INT64
Case = tuple[Sequence[Any], Mapping[str, np.ndarray], Mapping[str, Any]]

#: Nodes, inputs and constants; the output is y.
CASES: dict[str, Case] = {
    "OneHot": (
        [node("OneHot", "i depth pair", "y")],
        {"i": IDS},
        {"depth": np.int64(5), "pair": np.float32([0, 1])},
    ),
    "Equal": ([node("Equal", "i one", "y")], {"i": IDS}, {"one": np.int64(1)}),
    "GatherElements": (
        [node("GatherElements", "x i", "y", axis=1)],
        {"x": X, "i": IDS % 4 - 2},
        {},
    ),
    "GatherElements of int64": (
        [node("GatherElements", "j i", "y", axis=1)],
        {"j": IDS * 1000, "i": IDS % 4 - 2},
        {},
    ),
    "ScatterND": (
        [node("ScatterND", "x i u", "y")],
        {"x": X, "i": np.array([[1], [-2]]), "u": -X},
        {},
    ),
    "ScatterElements": (
        [node("ScatterElements", "x i u", "y", axis=1)],
        {"x": X, "i": np.array([[3, -4], [1, 0]]), "u": np.ones((2, 2), np.float32)},
        {},
    ),
    "places behind padding": (
        [
            node("Equal", "i one", "e"), node("Not", "e", "n"),
            node("Cast", "n", "m", to=BY_DTYPE[DType.INT32].number), node("CumSum", "m one", "c"),
            node("Mul", "c m", "p"), node("Cast", "p", "q", to=BY_DTYPE[INT64].number),
            node("Add", "q one", "r"), node("Gather", "table r", "y"),
        ],
        {"i": IDS},
        {"one": np.int64(1), "table": TABLE},
    ),
    "one less a mask": (
        [node("Sub", "one i", "s"), node("Cast", "s", "y", to=BY_DTYPE[DType.FLOAT32].number)],
        {"i": IDS % 2},
        {"one": np.int64(1)},
    ),
    "the best, looked up": (
        [node("TopK", "x two", "v k"), node("GatherElements", "x k", "y", axis=1)],
        {"x": X},
        {"two": np.int64([2])},
    ),
    "a mask of any": ([node("Cast", "i", "y", to=BY_DTYPE[DType.BOOL].number)], {"i": IDS % 2}, {}),
    "lengths turned round": (
        [node("ReverseSequence", "x l", "y", batch_axis=0, time_axis=1)],
        {"x": X, "l": np.array([3, 0])},
        {},
    ),
    "lengths of an LSTM": (
        [node("LSTM", "w3 w r - l", "y", hidden_size=2)],
        {"w3": X.reshape(4, 2, 1), "l": np.int32([4, 1])},
        {"w": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8, 1),
         "r": np.linspace(1, -1, 16, dtype=np.float32).reshape(1, 8, 2)},
    ),
    "pictures of regions": (
        [node("RoiAlign", "p x l", "y", output_height=2, output_width=2)],
        {"p": np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4), "x": abs(X) * 3,
         "l": np.array([1, 0])},
        {},
    ),
    "a cache written to": (
        [node("TensorScatter", "k u l", "y")],
        {"k": X.reshape(2, 1, 4, 1), "u": -X[:, :2].reshape(2, 1, 2, 1), "l": np.array([1, 2])},
        {},
    ),
    "moved and limited": (
        [node("Concat", "i j", "k", axis=1), node("Clip", "k zero four", "y")],
        {"i": IDS, "j": IDS + 3},
        {"zero": np.int64(0), "four": np.int64(4)},
    ),
}  # fmt: skip


def written(folder: Path, case: Case) -> Path:
    """The model of a case."""
    nodes, feeds, constants = case
    inputs = [value(name, a.shape, DType.of(a)) for name, a in feeds.items()]
    return save(model(graph(nodes, inputs, [value("y", None)], constants), opset=24), folder)


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.mark.device
def test_a_blob_has_the_models_type(tmp_path: Path, library: Path) -> None:
    feeds = CASES["places behind padding"][1]
    path, out = written(tmp_path, CASES["places behind padding"]), tmp_path / "net.vkb"
    vknn.export(path, out, outputs=["q", "r", "c"], example=dict(feeds))
    with vknn.Session(path, device=shared_device()) as session:
        wanted = session.run(dict(feeds), outputs=["q", "r", "c"])
    with Runner(out, library=library) as runner:
        found = runner.run(dict(feeds))
    assert {name: a.dtype for name, a in found.items()} == {"q": "i8", "r": "i8", "c": "i4"}
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_a_session(name: str, tmp_path: Path, library: Path) -> None:
    feeds = CASES[name][1]
    path, out = written(tmp_path, CASES[name]), tmp_path / "net.vkb"
    vknn.export(path, out, targets=["llvmpipe", "generic"], example=dict(feeds))
    with vknn.Session(path, device=shared_device()) as session:
        wanted = session.run(dict(feeds))["y"]
    with Runner(out, library=library) as runner:
        found = runner.run(dict(feeds))["y"]
        assert runner.test()[0]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted)


def fed(op: Op, *given: tuple[np.ndarray, bool]) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph of one operator; of each array whether it is a constant."""
    builder = GraphBuilder("one")
    values: list[Value] = []
    feeds = {}
    for number, (array, fixed) in enumerate(given):
        if fixed:
            values.append(builder.constant(array))
            continue
        values.append(builder.input(f"x{number}", TensorType(array.shape, DType.of(array))))
        feeds[f"x{number}"] = array
    results = builder.add_many(op, *values)
    return builder.finish({f"y{n}": v for n, v in enumerate(results)}), feeds


@pytest.mark.parametrize(
    ("op", "fixed"),
    [
        (Add(), [0, 0]), (Sub(), [0, 0]), (Mul(), [0, 1]), (Max(), [0, 1]), (Min(), [0, 0]),
        (FloorDiv(), [0, 7]), (Mod(), [0, 7]), (Abs(), [0]), (Neg(), [0]), (Sign(), [0]),
        (ReduceSum((1,)), [0]), (ReduceMax((1,)), [0]), (CumSum(1), [0]), (Concat(0), [0, 1]),
        (TopK(1, 2), [0]), (ArgMax(1), [0]), (Pad((0, 1, 0, 1), value=9.0), [0]), (Equal(), [0, 0]),
        (Clip(-7.0, 1e6), [0]), (Clip(max=3.0), [0]), (Relu(), [0]),
        (Cast(DType.INT32), [0]), (Cast(DType.BOOL), [0]),
    ],
    ids=lambda given: given.type_name if isinstance(given, Op) else "",
)  # fmt: skip
def test_bounds_hold_whatever_goes_in(op: Op, fixed: list[int]) -> None:
    """``fixed``: 0 of an input, else a number of the constant."""
    rng = np.random.default_rng(5)
    ends = rng.choice([-MOST, MOST - 1, 0, 1, -1], (3, 4))
    for x in (ends, rng.integers(-MOST, MOST, (3, 4)), np.full((3, 4), -MOST)):
        arrays = [
            (np.full((3, 4), number), True) if number else (np.roll(x, place), False)
            for place, number in enumerate(fixed)
        ]
        one, feeds = fed(op, *arrays)
        found = bounds_of(one)
        for name, array in reference.run(one, feeds).items():
            low, high = found[one.outputs[name]]
            assert low <= array.min() and array.max() <= high, name
            assert -(2**31) <= low <= high < 2**31


@pytest.mark.parametrize(
    ("op", "fixed"),
    [
        (Mul(), [0, 0]), (Mul(), [0, 1 << 14]), (ReduceSum((1,)), [0]), (CumSum(1), [0]),
        (Equal(), [0, 1 << 40]), (FloorDiv(), [0, 0]), (Mod(), [0, -3]), (Cast(DType.INT16), [0]),
        (Clip(0.5, 7.0), [0]), (Clip(0.0, 2.0**33), [0]),
    ],
    ids=lambda given: given.type_name if isinstance(given, Op) else "",
)  # fmt: skip
def test_what_may_be_beyond_stays(op: Op, fixed: list[int]) -> None:
    arrays = [
        (np.full((2, 9000), number), True) if number else (np.ones((2, 9000), np.int64), False)
        for number in fixed
    ]
    one, _ = fed(op, *arrays)
    made = narrowed(one)
    if isinstance(op, Cast):  # it keeps the low bits of either, so that its input may be narrow
        assert made.inputs[0].type.dtype is DType.INT32
        assert one.outputs["y0"] not in bounds_of(one)
    else:
        assert made is one


def test_a_session_finds_numbers_of_float_anywhere(tmp_path: Path) -> None:
    """A float may be beyond all, and what casts make of it is refused."""
    nodes = [node("Cast", "x", "i", to=BY_DTYPE[INT64].number), node("Equal", "i one", "y")]
    path = written(tmp_path, (nodes, {"x": X}, {"one": np.int64(1)}))
    with pytest.raises(ExportError, match="Equal 'y': tensors of type int64 stay on the host"):
        vknn.export(path, tmp_path / "net.vkb")


def test_checks_that_cannot_fail_go() -> None:
    builder = GraphBuilder("checked")
    x = builder.input("x", TensorType((3, 4)))
    best = builder.add(Cast(DType.INT64), builder.add(ArgMax(1), x))
    inside = builder.add(Bounded(0, 3), best)
    outside = builder.add(Bounded(0, 2), best)
    graph = builder.finish({"y": builder.add(Neg(), inside), "z": builder.add(Neg(), outside)})
    names = [one.op.type_name for one in narrowed(graph).nodes]
    assert names.count("Bounded") == 1
    del graph.outputs["z"]
    graph.nodes[:] = [one for one in graph.nodes if outside not in (*one.inputs, *one.outputs)]
    assert "Bounded" not in [one.op.type_name for one in narrowed(graph).nodes]


def test_a_choice_between_tables_by_indices() -> None:
    """Indices that count from the end are reckoned with, and still nothing but indices."""
    builder = GraphBuilder("reckoned")
    index = builder.input("i", TensorType((3,), DType.INT64))
    checked = builder.add(Bounded(-5, 4), index)
    places = builder.add(Cast(DType.INT32), checked)
    moved = builder.add(Add(), places, builder.constant(np.int32([5])))
    nought = builder.constant(np.zeros(3, np.bool_))
    places = builder.add(Where(), nought, moved, places)
    graph = builder.finish({"y": builder.add(Gather(0), builder.constant(TABLE), places)})
    assert "Bounded" not in [one.op.type_name for one in narrowed(graph).nodes]


def test_an_example_beyond_32_bits(tmp_path: Path) -> None:
    """Its answer would be that of other numbers."""
    path = written(tmp_path, CASES["Equal"])
    with pytest.raises(InputError, match="'i' has numbers beyond 32 bits.* give smaller numbers"):
        vknn.export(path, tmp_path / "net.vkb", example={"i": IDS + (1 << 32)})
    assert not (tmp_path / "net.vkb").exists()
    vknn.export(path, tmp_path / "net.vkb", example={"i": IDS + (1 << 30)})


def test_a_long_chain_of_places() -> None:
    builder = GraphBuilder("long")
    places = builder.add(Bounded(0, 9), builder.input("i", TensorType((3,), DType.INT64)))
    for _ in range(2000):
        places = builder.add(Max(), places, builder.constant(np.int64([0])))
    places = builder.add(Cast(DType.INT32), places)
    graph = builder.finish({"y": builder.add(Gather(0), builder.constant(TABLE), places)})
    made = narrowed(graph)
    assert made.inputs[0].type.dtype is DType.INT32
    assert [one.op.type_name for one in made.nodes[-2:]] == ["Cast", "Gather"]
    assert len(made.nodes) == len(graph.nodes) - 1


@pytest.mark.parametrize(
    ("op", "constant", "is_told"),
    [(Add(), 1, True), (Mul(), 7, True), (Max(), 1, False), (Min(), 1, False)],
)
def test_what_inputs_are_taken_for_is_told(op: Op, constant: int, is_told: bool) -> None:
    one, _ = fed(op, (np.ones((3, 4), np.int64), False), (np.full((3, 4), constant), True))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert narrowed(one).inputs[0].type.dtype is DType.INT32
    text = r"int64 inputs \('x0'\) are taken to hold numbers from -262,144 to 262,143"
    assert [bool(re.match(text, str(w.message))) for w in found] == [True] * is_told
