"""Shape arithmetic as exporters write it: nothing of it is left, for no size, short or long.

Each chain is a network of symbolic sizes; for each shape it has to be one segment of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, value

from vknn import Session
from vknn.graph import DType
from vknn.lowering import LoweringOptions
from vknn.partition import partition
from vknn.passes import run_passes
from vknn.plan import DeviceLimits
from vknn.session import engine_of

F, N = np.float32, np.int64
#: The least of a size from which a mask by it is more than what is folded as a matter of course.
LONG = 331
NUMBERS = {
    "zero": N(0),
    "one": N(1),
    "two": N(2),
    "three": N(3),
    "z": N([0]),
    "o": N([1]),
    "t": N([2]),
    "th": N([3]),
    "f": N([4]),
    "m": N([-1]),
    "ax": N([0, 1]),
    "half": F(0.5),
    "twice": F(2),
    "low": F(-1e4),
    "true": np.array(True),
    "far": N([np.iinfo(N).max]),
    "onef": F(1),
    "back": N([-1, 2]),
    "first": N([np.iinfo(N).min + 1]),
    "pads": N([1, 2, 0, 1]),
    "zf": F(0),
    "ramp": F([[[0]], [[1]], [[2]]]),
    "ones": F([1, 1]),
    "column": N([-1, 1]),
}


def size(axis: str, name: str) -> list[Any]:
    """One size of x, as torch.onnx writes x.shape[axis]."""
    return [node("Shape", "x", f"{name}:s"), node("Gather", f"{name}:s {axis}", name, axis=0)]


def vector(*names: str) -> list[Any]:
    """Sizes as vectors of one element."""
    return [node("Unsqueeze", f"{name} z", f"{name}v") for name in names]


def _scores(x: np.ndarray) -> np.ndarray:
    return np.asarray(x.transpose(0, 1, 3, 2) @ x)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _causal(x: np.ndarray) -> np.ndarray:
    scores = _scores(x)
    return _softmax(np.where(np.tri(scores.shape[-1], dtype=bool), scores, -1e4))


def _shifted(x: np.ndarray) -> np.ndarray:
    found = x.copy()
    found[..., :-1] = x[..., 1:]
    return found


SCORES = [node("Transpose", "x", "xt", perm=[0, 1, 3, 2]), node("MatMul", "xt x", "q")]
ROWS = [
    node("Range", "zero w one", "r"),
    node("Unsqueeze", "r z", "across"),
    node("Unsqueeze", "r o", "down"),
]
GRID = [
    node("Reshape", "r m", "r1"),
    node("Unsqueeze", "r1 z", "a"),
    node("Unsqueeze", "r1 o", "b"),
    node("Concat", "wv wv", "ww", axis=0),
    node("Expand", "a ww", "ae"),
    node("Expand", "b ww", "be"),
    node("Unsqueeze", "ae m", "au"),
    node("Unsqueeze", "be m", "bu"),
    node("Concat", "au bu", "g", axis=-1),
    node("Cast", "g", "gf", to=1),
]

CHAINS: dict[str, tuple[list[Any], Callable[[np.ndarray], np.ndarray]]] = {
    "view": (
        [
            *size("zero", "n"),
            *size("two", "h"),
            *vector("n", "h"),
            node("Concat", "nv hv m", "to", axis=0),
            node("Reshape", "x to"),
        ],
        lambda x: x.reshape(x.shape[0], x.shape[2], -1),
    ),
    "view by a quotient": (
        [
            *size("one", "c"),
            *size("three", "w"),
            node("Mul", "c w", "cw"),
            node("Div", "cw three", "q"),
            node("Cast", "q", "qi", to=7),
            *vector("qi"),
            node("Concat", "m qiv", "to", axis=0),
            node("Reshape", "x to"),
        ],
        lambda x: x.reshape(-1, x.shape[3]),
    ),
    "interpolate": (
        [
            node("Shape", "x", "s"),
            node("Slice", "s z t z", "nc"),
            *size("two", "h"),
            *size("three", "w"),
            *[
                n
                for a in "hw"
                for n in (
                    node("Cast", a, f"{a}1", to=1),
                    node("Mul", f"{a}1 twice", f"{a}2"),
                    node("Floor", f"{a}2", f"{a}3"),
                    node("Cast", f"{a}3", f"{a}4", to=7),
                )
            ],
            *vector("h4", "w4"),
            node("Concat", "nc h4v w4v", "to", axis=0),
            node(
                "Resize",
                "x - - to",
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            ),
        ],
        lambda x: x.repeat(2, 2).repeat(2, 3),
    ),
    "expand": (
        [
            node("Shape", "x", "s"),
            node("ConstantOfShape", "f", "of1", value=N([1])),
            node("Mul", "of1 m", "of-1"),
            node("Equal", "s of-1", "e"),
            node("Where", "e of1 s", "to"),
            node("Expand", "ramp to", "full"),
            node("Add", "x full"),
        ],
        lambda x: x + np.arange(3, dtype=F).reshape(3, 1, 1),
    ),
    "pad": (
        [
            node("ConstantOfShape", "f", "none", value=N([0])),
            node("Concat", "pads none", "p", axis=0),
            node("Reshape", "p back", "p2"),
            node("Slice", "p2 m first z m", "p3"),
            node("Transpose", "p3", "p4", perm=[1, 0]),
            node("Reshape", "p4 m", "p5"),
            node("Cast", "p5", "p6", to=7),
            node("Pad", "x p6 zf"),
        ],
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2))),
    ),
    "causal mask of a triangle": (
        [
            *size("three", "w"),
            *vector("w"),
            node("Concat", "wv wv", "ww", axis=0),
            node("ConstantOfShape", "ww", "all", value=F([-1e4])),
            node("Trilu", "all one", "tri"),
            node("Unsqueeze", "tri ax", "mask"),
            *SCORES,
            node("Add", "q mask", "qm"),
            node("Softmax", "qm"),
        ],
        _causal,
    ),
    "causal mask of places": (
        [
            *size("three", "w"),
            *ROWS,
            node("LessOrEqual", "across down", "le"),
            node("And", "le le", "seen"),
            *SCORES,
            node("Where", "seen q low", "qm"),
            node("Softmax", "qm"),
        ],
        _causal,
    ),
    "causal mask of numbers": (
        [
            *size("three", "w"),
            *ROWS,
            node("Greater", "across down", "gt"),
            node("Cast", "gt", "gf", to=1),
            node("Mul", "gf low", "mask"),
            *SCORES,
            node("Add", "q mask", "qm"),
            node("Softmax", "qm"),
        ],
        _causal,
    ),
    "grid of places": (
        [
            *size("three", "w"),
            *vector("w"),
            *ROWS,
            *GRID,
            *SCORES,
            node("Unsqueeze", "q m", "qu"),
            node("Mul", "qu gf"),
        ],
        lambda x: (
            _scores(x)[..., None] * np.stack(np.meshgrid(*[np.arange(x.shape[3], dtype=F)] * 2), -1)
        ),
    ),
    "scale of attention": (
        [
            *size("three", "w"),
            node("Cast", "w", "wf", to=1),
            node("Sqrt", "wf", "root"),
            node("Div", "onef root", "d"),
            node("Sqrt", "d", "scale"),
            node("Mul", "x scale"),
        ],
        lambda x: x * F(x.shape[3]) ** F(-0.25),
    ),
    "assignment to a slice": (
        [
            *size("three", "w"),
            node("Range", "zero w one", "r"),
            node("Slice", "r z m", "r2"),
            node("Reshape", "r2 column", "at"),
            node("Transpose", "x", "xt", perm=[3, 0, 1, 2]),
            node("Slice", "xt o far z", "up"),
            node("ScatterND", "xt at up", "yt"),
            node("Transpose", "yt", perm=[1, 2, 3, 0]),
        ],
        _shifted,
    ),
    "branch on a size": (
        [
            *size("one", "c"),
            node("Equal", "c one", "e"),
            node(
                "If",
                "e",
                "b",
                then_branch=graph([node("Squeeze", "x o", "k")], [], [value("k", None)]),
                else_branch=graph([node("Neg", "x", "k")], [], [value("k", None)]),
            ),
            node("Abs", "b"),
        ],
        abs,
    ),
    "loop over a size": (
        [
            *size("zero", "n"),
            node(
                "Loop",
                "n true x",
                body=graph(
                    [node("Add", "v x", "v2"), node("Identity", "c", "c2")],
                    [value("i", (), DType.INT64), value("c", (), DType.BOOL), value("v", None)],
                    [value("c2", (), DType.BOOL), value("v2", None)],
                ),
            ),
        ],
        lambda x: x * (1 + x.shape[0]),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_no_step_is_left_to_the_host(name: str, tmp_path: Path) -> None:
    nodes, wanted = CHAINS[name]
    reads = {read for one in nodes for read in _reads(one)}
    tensors = {key: array for key, array in NUMBERS.items() if key in reads}
    body = graph(nodes, [value("x", ("n", 3, "h", "w"))], [value("y", None)], tensors)
    path = save(model(body, opset=17), tmp_path)
    with Session(path, device="numpy") as session:
        for dims in ((2, 3, 5, 7), (1, 3, 2, LONG)):
            x = np.random.default_rng(1).standard_normal(dims).astype(F)
            before = engine_of(session).graph({"x": x})
            assert before.continuation is None
            parts = partition(run_passes(before), DeviceLimits(), LoweringOptions())
            assert len(parts.segments) == 1 and not parts.deferred
            assert set(parts.placement.values()) == {"vulkan"}
            np.testing.assert_allclose(session.run({"x": x})["y"], wanted(x), rtol=1e-4, atol=1e-5)


def _reads(one: Any) -> Sequence[str]:
    """The names that a node and its subgraphs read."""
    inner = [name for a in one.attribute if a.type == 5 for n in a.g.node for name in _reads(n)]
    return [*one.input, *inner]
