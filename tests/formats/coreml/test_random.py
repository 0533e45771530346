"""Random layers: shapes, seeds, distributions, both backends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.coreml_cases import values
from tests.coreml_writer import layer, model, network, run, run_everywhere, session
from tests.helpers import shared_device

from vknn.errors import ShapeError

KINDS: dict[str, dict[str, float]] = {
    "randomUniform": {"minVal": -2.0, "maxVal": 3.0},
    "randomNormal": {"mean": 1.5, "stdDev": 0.5},
    "randomBernoulli": {"prob": 0.25},
}
BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]
MANY = (100, 401)


def moments(kind: str) -> tuple[float, float]:
    """Mean and variance of what KINDS ask for."""
    return {
        "randomUniform": (0.5, 25 / 12),
        "randomNormal": (1.5, 0.25),
        "randomBernoulli": (0.25, 0.1875),
    }[kind]


def check_distribution(kind: str, y: np.ndarray) -> None:
    mean, variance = moments(kind)
    y = y.astype(np.float64)
    error = math.sqrt(variance / y.size)
    assert abs(y.mean() - mean) < 5 * error
    assert abs(y.var() / variance - 1) < 0.05
    # Neighbours along either axis do not depend on each other.
    for axis in (0, 1):
        one, other = np.delete(y, 0, axis), np.delete(y, -1, axis)
        assert abs(np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1]) < 5 / math.sqrt(y.size)
    if kind == "randomUniform":
        assert y.min() >= -2
        assert y.max() < 3
    if kind == "randomBernoulli":
        assert set(np.unique(y)) == {0, 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["Static", "Like", "Dynamic"])
@pytest.mark.parametrize("seed", [-1, 0, 7])
def test_distributions(kind: str, form: str, seed: int) -> None:
    params: dict[str, Any] = dict(KINDS[kind]) | {"seed": seed}
    feeds = {"x": np.zeros(MANY, np.float32)}
    if form == "Static":
        made = layer(kind + form, (), **params, outputShape=list(MANY))
    else:
        made = layer(kind + form, **params)
        feeds = {"x": np.float32(MANY)} if form == "Dynamic" else feeds
    y = run(made, feeds)["y"]
    assert y.shape == MANY
    check_distribution(kind, y)
    if seed >= 0:
        # Everything is computed where the counter is an input, else it is known beforehand.
        np.testing.assert_array_equal(run_everywhere(made, feeds)["y"], y)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind: str, backend: str) -> None:
    """From 0 on: the same in each run; below: others in each layer, run and session."""

    def layers(seed: int) -> list[Any]:
        params: dict[str, Any] = dict(KINDS[kind]) | {"seed": seed, "outputShape": [64]}
        return [layer(f"{kind}Static", (), (n,), name=n, **params) for n in ("a", "b")]

    def drawn(seed: int) -> list[bytes]:
        message = model(layers(seed), {"x": (1,)}, ("a", "b"))
        with session(message, "numpy" if backend == "numpy" else shared_device()) as s:
            runs = [s.run({"x": values(1)}) for _ in range(2)]
            if backend == "vulkan":
                assert set(s.placement.values()) <= {"vulkan"}
        return [run[name].tobytes() for run in runs for name in ("a", "b")]

    assert len(set(drawn(5) + drawn(5))) == 1
    assert drawn(5)[0] != drawn(6)[0] != drawn((1 << 40) + 6)[0]
    assert len(set(drawn(-1) + drawn(-1))) == 8


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
def test_drawn_on_the_device(kind: str) -> None:
    params: dict[str, Any] = dict(KINDS[kind]) | {"seed": -1, "outputShape": list(MANY)}
    message = model([layer(f"{kind}Static", (), **params)], {"x": (1,)})
    with session(message, shared_device()) as s:
        check_distribution(kind, s.run({"x": values(1)})["y"])
        assert set(s.placement.values()) <= {"vulkan"}


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (2, 3, 4), (1, 2, 3, 2), (2, 1, 2, 3, 2)])
def test_shapes(shape: tuple[int, ...]) -> None:
    layers = [
        layer(f"{kind}Static", (), (kind,), name=kind, outputShape=list(shape), seed=3, **params)
        for kind, params in KINDS.items()
    ]
    found = run_everywhere(layers, {"x": values(1)}, tuple(KINDS))
    assert all(found[kind].shape == shape for kind in KINDS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_a_loop(backend: str) -> None:
    """Each round draws other numbers; with a seed all draw the same."""
    for seed, different in ((-1, 5), (2, 1)):
        body = [
            layer("randomUniformStatic", (), ("u",), seed=seed, maxVal=1.0, outputShape=[3]),
            layer("concatND", ("all", "u"), ("more",), axis=0),
            layer("copy", ("more",), ("all",)),
        ]
        net = [
            layer("copy", ("x",), ("all",)),
            layer("loop", (), (), maxLoopIterations=5, bodyNetwork=network(body)),
        ]
        device = "numpy" if backend == "numpy" else shared_device()
        with session(model(net, {"x": (1,)}, ("all",)), device) as s:
            rounds = s.run({"x": values(1)})["all"][1:].reshape(5, 3)
        assert len({r.tobytes() for r in rounds}) == different


def expected_shares(x: np.ndarray, logits: bool, eps: float, temperature: float) -> np.ndarray:
    x = x.astype(np.float64)
    z = (x if logits else np.log(x + eps)) / temperature
    powers = np.exp(z - z.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize(("temperature", "eps"), [(0.0, 0.0), (1.0, 1e-10), (2.5, 0.0), (0.5, 0.1)])
def test_categorical(logits: bool, temperature: float, eps: float) -> None:
    x = values(2, 6) if logits else np.array([[0.1, 0, 0.2, 0.3, 0.4], [3, 1, 0, 0, 0]], np.float32)
    params = {"isLogits": logits, "temperature": temperature, "eps": eps, "numSamples": 50_000}
    shares = expected_shares(x, logits, eps or 1e-10, temperature or 1)
    for seed in (-1, 4):
        y = run(layer("categoricalDistribution", seed=seed, **params), {"x": x})["y"]
        assert y.shape == (2, 50_000)
        for row, share in zip(y, shares, strict=True):
            found = np.bincount(row.astype(int), minlength=len(share)) / len(row)
            np.testing.assert_allclose(found, share, atol=0.01)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 2), (1, 2, 1, 5), (2, 1, 2, 2, 3)])
def test_categorical_on_both_backends(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    layers = [
        layer("categoricalDistribution", ("x",), ("a",), name="a", isLogits=True, numSamples=7),
        layer("categoricalDistribution", ("p",), ("b",), name="b", numSamples=1, seed=5),
        layer("categoricalDistribution", ("p",), ("c",), name="c", numSamples=3, temperature=2.0),
    ]
    found = run_everywhere(layers, {"x": x, "p": np.abs(x)}, ("a", "b", "c"))
    assert [found[n].shape for n in "abc"] == [(*shape[:-1], k) for k in (7, 1, 3)]
    for array in found.values():
        assert ((array >= 0) & (array < shape[-1])).all()


def test_refused() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("randomUniformLike", {"minVal": 2.0, "maxVal": 1.0}),
        ("randomNormalLike", {"stdDev": -1.0}),
        ("randomBernoulliLike", {"prob": 1.5}),
        ("randomUniformDynamic", {"maxVal": 1.0}),
        ("categoricalDistribution", {}),
        ("categoricalDistribution", {"numSamples": -3}),
        ("categoricalDistribution", {"numSamples": 3, "temperature": -1.0}),
        ("categoricalDistribution", {"numSamples": 1 << 40}),
    ]
    for kind, params in wrong:
        with pytest.raises(ShapeError, match=kind):
            run(layer(kind, **params), {"x": np.float32([-2, 3])})
    for shape in ([], [1 << 20, 1 << 20]):
        with pytest.raises(ShapeError, match="randomNormalStatic"):
            run(layer("randomNormalStatic", (), outputShape=shape), {"x": values(1)})
