"""Arithmetic of the oldest layers and their reductions, against NumPy's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    layer,
    linear_weights,
    model,
    near,
    run,
    run_everywhere,
    session,
    weights,
)

from vknn.errors import VknnError
from vknn.passes import run_passes

RNG = np.random.default_rng(16)
FUNCTIONS = {
    "add": np.add,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "average": np.add,
}
LIMITED = [(2, 1, 1, 1), (2, 3, 1, 1), (2, 1, 4, 5), (2, 3, 4, 5)]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def folded(kind: str, arrays: list[np.ndarray]) -> np.ndarray:
    result = functools.reduce(FUNCTIONS[kind], [a.astype(np.float64) for a in arrays])
    return result / len(arrays) if kind == "average" else result


@pytest.mark.device
@pytest.mark.parametrize("kind", list(FUNCTIONS))
def test_broadcasting(kind: str) -> None:
    for small in LIMITED:
        a, b = normal(*LIMITED[-1]), normal(*small)
        for feeds in ({"a": a, "b": b}, {"a": b, "b": a}):
            y = run(layer(kind, ["a", "b"]), feeds)["y"]
            assert y.shape == a.shape
            near(y, folded(kind, list(feeds.values())))
    feeds = {name: normal(*shape) for name, shape in zip("abcd", LIMITED, strict=True)}
    near(run_everywhere(layer(kind, list("abcd")), feeds)["y"], folded(kind, list(feeds.values())))


@pytest.mark.parametrize("kind", list(FUNCTIONS))
def test_other_ranks_and_the_rank_5_mapping(kind: str) -> None:
    for shape in ((7,), (3, 4), (2, 3, 2, 3, 2)):
        feeds = {"a": normal(*shape), "b": normal(*shape), "c": normal(*shape)}
        near(run(layer(kind, list("abc")), feeds)["y"], folded(kind, list(feeds.values())))
    feeds = {"a": normal(3), "b": normal(3, 2, 4)}
    y = run(layer(kind, ["a", "b"]), feeds, rank5=True)["y"]
    near(y, folded(kind, [feeds["a"].reshape(3, 1, 1), feeds["b"]])[None, None])


def test_a_single_input() -> None:
    x = normal(2, 3)
    near(run(layer("add", alpha=1.5), {"x": x})["y"], x + 1.5)
    near(run(layer("add"), {"x": x})["y"], x)
    near(run(layer("multiply", alpha=-2.5), {"x": x})["y"], x * -2.5)
    np.testing.assert_array_equal(run(layer("multiply"), {"x": x})["y"], 0 * x)


@pytest.mark.device
@pytest.mark.parametrize("shape", [(5, 1, 1), (2, 5, 1, 1), (3, 2, 5, 1, 1)])
def test_dot(shape: Any) -> None:
    a, b = normal(*shape), normal(*shape)
    a *= 1e-3
    feeds = {"a": a, "b": b}
    product = (a.astype(np.float64) * b).sum(axis=-3, keepdims=True)
    near(run_everywhere(layer("dot", ["a", "b"]), feeds)["y"], product)
    norms = [np.sqrt(np.square(v.astype(np.float64)).sum(axis=-3, keepdims=True)) for v in (a, b)]
    net = layer("dot", ["a", "b"], cosineSimilarity=True)
    near(run_everywhere(net, feeds)["y"], product / norms[0] / norms[1])
    assert not run(net, {"a": 0 * a, "b": b})["y"].any()


@pytest.mark.device
@pytest.mark.parametrize("lead", [(), (2,), (2, 2)])
@pytest.mark.parametrize("stored", [(1,), (3,), (1, 4, 5), (3, 4, 5), (3, 1, 1), (1, 1, 1)])
def test_scale_and_bias(lead: Any, stored: Any) -> None:
    x, s, b = normal(*lead, 3, 4, 5), normal(*stored), normal(*stored)
    whole = (3, 1, 1) if stored == (3,) else stored
    scale, shift = s.reshape(whole), b.reshape(whole)
    net = layer("scale", shapeScale=stored, scale=weights(s))
    near(run(net, {"x": x})["y"], x * scale)
    net = layer("bias", shape=stored, bias=weights(b))
    near(run(net, {"x": x})["y"], x + shift)
    net = layer(
        "scale",
        shapeScale=stored,
        scale=weights(s),
        hasBias=True,
        shapeBias=[1],
        bias=weights([0.5]),
    )
    y = run_everywhere(net, {"x": x})["y"]
    near(y, x * scale + 0.5)


def test_a_vector_lies_along_the_channels_in_every_mapping_and_encoding() -> None:
    codes = np.array([1, 2, 3])
    net = layer("scale", shapeScale=[3], scale=linear_weights(codes, 2, 0.5))
    x = normal(3)
    near(run(net, {"x": x}, rank5=True)["y"], (x * codes / 2).reshape(1, 1, 3, 1, 1))
    x = normal(3, 3, 3)
    near(run(net, {"x": x})["y"], x * (codes / 2).reshape(3, 1, 1))


AXES = {"CHW": (-3, -2, -1), "HW": (-2, -1), "C": (-3,), "H": (-2,), "W": (-1,)}
MODES: dict[str, Any] = {
    "SUM": np.sum,
    "AVG": np.mean,
    "PROD": np.prod,
    "LOGSUM": lambda x, **k: np.log(x + 1e-6).sum(**k),
    "SUMSQUARE": lambda x, **k: np.square(x).sum(**k),
    "L1": lambda x, **k: np.abs(x).sum(**k),
    "L2": lambda x, **k: np.sqrt(np.square(x).sum(**k)),
    "MAX": np.max,
    "MIN": np.min,
}


@pytest.mark.device
@pytest.mark.parametrize("mode", list(MODES))
def test_reductions(mode: str) -> None:
    for shape in ((3, 4, 5), (2, 3, 4, 5), (2, 2, 3, 2, 3)):
        x = normal(*shape)
        if mode == "LOGSUM":
            x = np.abs(x)
        for name, axes in AXES.items():
            y = run(layer("reduce", mode=mode, axis=name), {"x": x})["y"]
            expected = MODES[mode](x.astype(np.float64), axis=axes, keepdims=True)
            assert y.shape == expected.shape
            near(y, expected)
    run_everywhere(layer("reduce", mode=mode, axis="HW"), {"x": x})


def test_reductions_of_low_rank() -> None:
    x = normal(4, 5)
    near(run(layer("reduce", axis="HW"), {"x": x})["y"], x.sum(keepdims=True))
    near(run(layer("reduce", axis="H"), {"x": x})["y"], x.sum(axis=0, keepdims=True))
    near(run(layer("reduce", axis="W"), {"x": x[0]})["y"], x[0].sum(keepdims=True))


@pytest.mark.device
def test_where_the_largest_is() -> None:
    x = RNG.integers(0, 4, (2, 3, 4, 5)).astype(np.float32)
    for name in "CHW":
        axis = AXES[name][0]
        y = run_everywhere(layer("reduce", mode="ARGMAX", axis=name), {"x": x})["y"]
        np.testing.assert_array_equal(y, x.argmax(axis=axis, keepdims=True))
        assert y.dtype == np.float32


def test_the_epsilon_of_the_sum_of_logarithms() -> None:
    x = np.array([[[1.0, 2.0]]], np.float32)
    y = run(layer("reduce", mode="LOGSUM", axis="W", epsilon=0.5), {"x": x})["y"]
    near(y, np.log(x + 0.5).sum(axis=-1, keepdims=True))


def test_pictures_keep_their_shape_between_layers_of_rank_5() -> None:
    """Shapes are restored at the ends of such a network only."""
    small = {"kernelSize": [1, 1], "weights": weights(np.eye(3)), "kernelChannels": 3}
    layers = [
        layer("convolution", ["x"], ["a"], name="first", outputChannels=3, **small),
        layer("activation", ["a"], ["b"], ReLU={}),
        layer("concat", ["a", "b"], ["c"]),
        layer("split", ["c"], ["d", "e"], nOutputs=2),
        layer("add", ["d", "e"], ["f"]),
        layer("pooling", ["f"], ["g"], globalPooling=True, type="AVERAGE"),
        layer("multiply", ["f", "g"], ["h"]),
        layer("convolution", ["h"], ["y"], name="last", outputChannels=3, **small),
    ]
    for shape in ((3, 4, 5), (2, 2, 3, 4, 5)):
        x = normal(*shape)
        with session(model(layers, {"x": x.shape}, rank5=True)) as s:
            found = s.run({"x": x})["y"]
            kinds = [n.op.type_name for n in run_passes(s._engine.graph({"x": x})).nodes]
        assert kinds.count("Reshape") == 2, kinds
        total = x.astype(np.float64) + np.maximum(x, 0)
        near(found, (total * total.mean(axis=(-2, -1), keepdims=True)).reshape(found.shape))


WRONG: dict[str, tuple[Any, tuple[int, ...]]] = {
    "average of one": (layer("average"), (2, 2)),
    "argmax over two axes": (layer("reduce", mode="ARGMAX", axis="HW"), (2, 2, 2)),
    "rank of reduce": (layer("reduce"), (2, 2)),
    "scale too long": (layer("scale", shapeScale=[4], scale=weights([1] * 4)), (3, 4, 4)),
    "scale without shape": (layer("scale", scale=weights([1])), (3, 4, 4)),
    "values of scale": (layer("scale", shapeScale=[3], scale=weights([1, 2])), (3, 4, 4)),
    "bias that grows x": (layer("bias", shape=[3, 4, 4], bias=weights([1] * 48)), (3, 1, 4)),
    "bias of rank 4": (layer("bias", shape=[2, 3, 1, 1], bias=weights([1] * 6)), (3, 4, 4)),
    "no bias": (layer("scale", shapeScale=[1], scale=weights([1]), hasBias=True), (3, 4, 4)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, {"x": np.zeros(shape, np.float32)})


def test_contradictions_of_two_inputs() -> None:
    for kind in FUNCTIONS:
        with pytest.raises(VknnError, match=kind):
            run(layer(kind, ["a", "b"]), {"a": normal(2, 3), "b": normal(2, 4)})
    for shapes in (((3, 1, 1), (4, 1, 1)), ((3, 2, 1), (3, 2, 1)), ((3, 1), (3, 1))):
        with pytest.raises(VknnError, match="dot"):
            run(layer("dot", ["a", "b"]), {"a": normal(*shapes[0]), "b": normal(*shapes[1])})
