"""Simple recurrent layers and GRUs, against loops that follow the specification's equations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.coreml_sequences import (
    ACTIVATIONS,
    B,
    Function,
    H,
    N,
    T,
    blob,
    clipped,
    message,
    normal,
    walk,
)
from tests.coreml_writer import layer, near, run, run_everywhere, weights

from vknn.errors import VknnError


def simple(w: Any, r: Any, b: Any, activation: str, **params: Any) -> Any:
    if b is not None:
        params |= {"hasBiasVector": True, "biasVector": weights(b)}
    return layer(
        "simpleRecurrent",
        params.pop("inputs", ["x"]),
        params.pop("outputs", ["y"]),
        inputVectorSize=N,
        outputVectorSize=H,
        activation=message(activation),
        weightMatrix=weights(w),
        recursionMatrix=weights(r),
        **params,
    )


def simple_steps(x: Any, w: Any, r: Any, b: Any, h: Any, f: Function, reverse: bool) -> np.ndarray:
    def step(v: np.ndarray) -> np.ndarray:
        nonlocal h
        h = f(clipped(v @ w.T + h @ r.T + b))
        return h

    return walk(x.astype(np.float64), reverse, step)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations(activation: str) -> None:
    x, w, r, b = normal(T, B, N), normal(H, N), normal(H, H) / 3, normal(H)
    net = simple(w, r, b, activation, sequenceOutput=True)
    expected = simple_steps(x, w, r, b, np.zeros((B, H)), ACTIVATIONS[activation][1], False)
    near(run(net, {"x": blob(x)})["y"], blob(expected))


@pytest.mark.device
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sequence", [False, True])
def test_simple(reverse: bool, sequence: bool) -> None:
    x, w, r, h = normal(T, B, N), normal(H, N), normal(H, H), normal(B, H)
    for b, given in itertools.product((None, normal(H)), (False, True)):
        net = simple(
            w,
            r,
            b,
            "tanh",
            reverseInput=reverse,
            sequenceOutput=sequence,
            inputs=["x", "h"][: 1 + given],
            outputs=["y", "last"],
        )
        feeds = {"x": blob(x)} | ({"h": blob(h)} if given else {})
        start = h if given else np.zeros((B, H))
        shift = 0 if b is None else b
        expected = simple_steps(x, w, r, shift, start, np.tanh, reverse)
        found = run(net, feeds, ["y", "last"])
        near(found["y"], blob(expected if sequence else expected[-1:]))
        near(found["last"], blob(expected[-1]))
    run_everywhere(net, feeds, ["y", "last"])


def test_arguments_are_clipped() -> None:
    x, eye = np.array([[[30.0, 100, -100]]]), np.eye(3)
    net = layer(
        "simpleRecurrent",
        inputVectorSize=3,
        outputVectorSize=3,
        activation={"linear": {"alpha": 1.0}},
        weightMatrix=weights(eye),
        recursionMatrix=weights(eye),
    )
    assert run(net, {"x": blob(x)})["y"].reshape(-1).tolist() == [30, 50, -50]


GRU_GATES = ("update", "reset", "output")


def gru(matrices: Any, activations: Sequence[str], bias: bool, **params: Any) -> Any:
    for gate, (w, r, b) in zip(GRU_GATES, matrices, strict=True):
        params[f"{gate}GateWeightMatrix"] = weights(w)
        params[f"{gate}GateRecursionMatrix"] = weights(r)
        if bias:
            params[f"{gate}GateBiasVector"] = weights(b)
    return layer(
        "gru",
        params.pop("inputs", ["x"]),
        params.pop("outputs", ["y"]),
        inputVectorSize=N,
        outputVectorSize=H,
        activations=[message(a) for a in activations],
        hasBiasVectors=bias,
        **params,
    )


def gru_steps(
    x: Any, matrices: Any, h: Any, functions: Sequence[Function], bias: bool, reverse: bool
) -> np.ndarray:
    f, g = functions

    def gate(k: int, function: Function, v: np.ndarray, state: np.ndarray) -> np.ndarray:
        w, r, b = matrices[k]
        return function(clipped(v @ w.T + state @ r.T + (b if bias else 0)))

    def step(v: np.ndarray) -> np.ndarray:
        nonlocal h
        z, reset = gate(0, f, v, h), gate(1, f, v, h)
        h = (1 - z) * gate(2, g, v, h * reset) + z * h
        return h

    return walk(x.astype(np.float64), reverse, step)


@pytest.mark.device
@pytest.mark.parametrize("names", [("sigmoid", "tanh"), ("hard", "ReLU"), ("linear", "scaled")])
@pytest.mark.parametrize("reverse", [False, True])
def test_gru(names: tuple[str, str], reverse: bool) -> None:
    x, h = normal(T, B, N), normal(B, H)
    matrices = [(normal(H, N), normal(H, H) / 2, normal(H)) for _ in GRU_GATES]
    functions = [ACTIVATIONS[n][1] for n in names]
    for sequence, bias, given in itertools.product((False, True), repeat=3):
        net = gru(
            matrices,
            names,
            bias,
            reverseInput=reverse,
            sequenceOutput=sequence,
            inputs=["x", "h"][: 1 + given],
            outputs=["y", "last"],
        )
        feeds = {"x": blob(x)} | ({"h": blob(h)} if given else {})
        start = h if given else np.zeros((B, H))
        expected = gru_steps(x, matrices, start, functions, bias, reverse)
        found = run(net, feeds, ["y", "last"])
        near(found["y"], blob(expected if sequence else expected[-1:]))
        near(found["last"], blob(expected[-1]))
    run_everywhere(net, feeds, ["y", "last"])


def test_pytorch_agrees() -> None:
    torch = pytest.importorskip("torch")
    x = normal(T, B, N)
    with torch.no_grad():
        other = torch.nn.RNN(N, H)
        y = other(torch.from_numpy(x))[0].numpy()
        w, r, bw, br = (p.numpy() for p in other.parameters())
    net = simple(w, r, bw + br, "tanh", sequenceOutput=True)
    near(run(net, {"x": blob(x)})["y"], blob(y))


def test_one_vector_in_the_rank_5_mapping() -> None:
    x, w, r = normal(N), normal(H, N), normal(H, H)
    y = run(simple(w, r, None, "tanh"), {"x": x}, rank5=True)["y"]
    near(y, np.tanh(w @ x).reshape(1, 1, H, 1, 1))


@pytest.mark.device
@pytest.mark.parametrize("shape", [(1, H, 1, 1, 1), (H, 1, 1, 1, 1), (1, 1, 1, 1, H), (H,)])
def test_initial_states_of_any_shape(shape: tuple[int, ...]) -> None:
    x, w, r, h = normal(T, 1, N), normal(H, N), normal(H, H), normal(1, H)
    net = simple(w, r, None, "tanh", sequenceOutput=True, inputs=["x", "h"])
    found = run_everywhere(net, {"x": blob(x), "h": h.reshape(shape)})
    near(found["y"], blob(simple_steps(x, w, r, 0, h, np.tanh, False)))


def wrong() -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    x, w, r = blob(normal(T, B, N)), normal(H, N), normal(H, H)
    net = simple(w, r, None, "tanh")
    odd = simple(w, r, None, "tanh")
    odd.simpleRecurrent.activation.parametricSoftplus.alpha.CopyFrom(weights([1]))
    state = {"x": x, "h": blob(normal(H))}
    return {
        "width": (net, {"x": blob(normal(T, B, 4))}),
        "rank": (net, {"x": normal(T, B, N)}),
        "matrix": (simple(w[:4], r, None, "tanh"), {"x": x}),
        "bias": (simple(w, r, w, "tanh"), {"x": x}),
        "state": (simple(w, r, None, "tanh", inputs=["x", "h"]), state),
        "unknown activation": (odd, {"x": x}),
    }


@pytest.mark.parametrize("what", list(wrong()))
def test_contradictions(what: str) -> None:
    net, feeds = wrong()[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, feeds)
