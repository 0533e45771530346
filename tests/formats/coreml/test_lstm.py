"""LSTMs in one direction and in both, against loops that follow the specification's equations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.coreml_sequences import (
    ACTIVATIONS,
    RNG,
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
from tests.coreml_writer import (
    fill,
    half_weights,
    layer,
    linear_weights,
    near,
    run,
    run_everywhere,
    weights,
)

from vknn.errors import VknnError

LSTM_GATES = ("input", "forget", "block", "output")
PREFIX = {
    "input": "inputGate",
    "forget": "forgetGate",
    "block": "blockInput",
    "output": "outputGate",
}
PEEPHOLES = ("input", "forget", "output")


def lstm_weights(bias: bool = True, peepholes: bool = True) -> dict[str, Any]:
    """W, R, b, p of each gate."""
    found: dict[str, Any] = {}
    for gate in LSTM_GATES:
        peep = normal(H) / 2 if peepholes and gate != "block" else np.zeros(H)
        found[gate] = (normal(H, N), normal(H, H) / 2, normal(H) if bias else np.zeros(H), peep)
    return found


def lstm_message(gates: dict[str, Any], bias: bool, peepholes: bool) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for gate, (w, r, b, p) in gates.items():
        params[f"{PREFIX[gate]}WeightMatrix"] = weights(w)
        params[f"{PREFIX[gate]}RecursionMatrix"] = weights(r)
        if bias:
            params[f"{PREFIX[gate]}BiasVector"] = weights(b)
        if peepholes and gate in PEEPHOLES:
            params[f"{PREFIX[gate]}PeepholeVector"] = weights(p)
    return params


def lstm_steps(
    x: Any,
    gates: dict[str, Any],
    h: Any,
    c: Any,
    functions: Sequence[Function],
    reverse: bool = False,
    coupled: bool = False,
    forget_bias: bool = False,
    threshold: float = 50.0,
) -> tuple[np.ndarray, np.ndarray]:
    """All y in the order in which they are made, and the last c."""
    f, g, out = functions

    def gate(name: str, function: Function, v: np.ndarray, cell: Any) -> np.ndarray:
        w, r, b, p = gates[name]
        more = float(name == "forget" and forget_bias)
        return function(clipped(v @ w.T + h @ r.T + p * cell + b + more))

    def step(v: np.ndarray) -> np.ndarray:
        nonlocal h, c
        i, z = gate("input", f, v, c), gate("block", g, v, 0)
        forget = 1 - i if coupled else gate("forget", f, v, c)
        c = np.clip(c * forget + i * z, -threshold, threshold)
        o = gate("output", f, v, c)
        h = out(c) * o
        return h

    return walk(x.astype(np.float64), reverse, step), c


def unilstm(
    gates: dict[str, Any], flags: dict[str, Any], names: Sequence[str], **params: Any
) -> Any:
    bias, peepholes = (flags.get(k, False) for k in ("hasBiasVectors", "hasPeepholeVectors"))
    return layer(
        "uniDirectionalLSTM",
        params.pop("inputs", ["x"]),
        params.pop("outputs", ["y"]),
        inputVectorSize=N,
        outputVectorSize=H,
        activations=[message(n) for n in names],
        params=flags,
        weightParams=lstm_message(gates, bias, peepholes),
        **params,
    )


USUAL = ("sigmoid", "tanh", "tanh")


@pytest.mark.device
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_lstm(bias: bool, peepholes: bool, coupled: bool) -> None:
    x, h, c = normal(T, B, N), normal(B, H), normal(B, H)
    gates = lstm_weights(bias, peepholes)
    functions = [ACTIVATIONS[n][1] for n in USUAL]
    outputs = ["y", "h", "c"]
    for sequence, reverse, more in itertools.product((False, True), repeat=3):
        flags = {
            "sequenceOutput": sequence,
            "hasBiasVectors": bias,
            "hasPeepholeVectors": peepholes,
            "coupledInputAndForgetGate": coupled,
            "forgetBias": more,
        }
        inputs = ["x", "h0", "c0"] if more else ["x"]
        net = unilstm(gates, flags, USUAL, reverseInput=reverse, inputs=inputs, outputs=outputs)
        feeds = {"x": blob(x), "h0": blob(h), "c0": blob(c)}
        feeds = {name: feeds[name] for name in inputs}
        start = (h, c) if more else (np.zeros((B, H)),) * 2
        expected, cell = lstm_steps(x, gates, *start, functions, reverse, coupled, more)
        found = run(net, feeds, outputs)
        near(found["y"], blob(expected if sequence else expected[-1:]))
        near(found["h"], blob(expected[-1]))
        near(found["c"], blob(cell))
    run_everywhere(net, feeds, outputs)


@pytest.mark.device
@pytest.mark.parametrize(
    "names", [("hard", "linear", "ReLU"), ("sigmoid", "scaled", "linear"), ("tanh", "ReLU", "hard")]
)
def test_activations_of_an_lstm(names: tuple[str, ...]) -> None:
    x, gates = normal(T, B, N), lstm_weights()
    functions = [ACTIVATIONS[n][1] for n in names]
    flags = {"sequenceOutput": True, "hasBiasVectors": True, "hasPeepholeVectors": True}
    zeros = np.zeros((B, H))
    expected, _ = lstm_steps(x, gates, zeros, zeros, functions)
    near(run_everywhere(unilstm(gates, flags, names), {"x": blob(x)})["y"], blob(expected))


@pytest.mark.parametrize("threshold", [0.0, 0.3, 50000.0])
def test_cells_are_clipped(threshold: float) -> None:
    x, gates = normal(6, B, N) * 40, lstm_weights()
    names, zeros = ("ReLU", "linear", "linear"), np.zeros((B, H))
    flags = {"hasBiasVectors": True, "hasPeepholeVectors": True, "cellClipThreshold": threshold}
    functions = [ACTIVATIONS[n][1] for n in names]
    expected, cell = lstm_steps(
        x, gates, zeros, zeros, functions, threshold=float(np.float32(threshold)) or 50.0
    )
    found = run(unilstm(gates, flags, names, outputs=["y", "h", "c"]), {"x": blob(x)}, ["y", "c"])
    near(found["y"], blob(expected[-1:]))
    near(found["c"], blob(cell))


def test_forget_bias_needs_no_other_bias() -> None:
    x, gates, zeros = normal(T, B, N), lstm_weights(False, False), np.zeros((B, H))
    functions = [ACTIVATIONS[n][1] for n in USUAL]
    expected, _ = lstm_steps(x, gates, zeros, zeros, functions, forget_bias=True)
    net = unilstm(gates, {"forgetBias": True}, USUAL)
    near(run(net, {"x": blob(x)})["y"], blob(expected[-1:]))


def test_a_coupled_gate_needs_no_weights() -> None:
    x, gates, zeros = normal(T, B, N), lstm_weights(True, True), np.zeros((B, H))
    flags = {"hasBiasVectors": True, "hasPeepholeVectors": True, "coupledInputAndForgetGate": True}
    net = unilstm(gates, flags, USUAL)
    for field in ("WeightMatrix", "RecursionMatrix", "BiasVector", "PeepholeVector"):
        net.uniDirectionalLSTM.weightParams.ClearField(f"forgetGate{field}")
    functions = [ACTIVATIONS[n][1] for n in USUAL]
    expected, _ = lstm_steps(x, gates, zeros, zeros, functions, coupled=True)
    near(run(net, {"x": blob(x)})["y"], blob(expected[-1:]))


def test_encodings_of_weights() -> None:
    x, gates, zeros = normal(T, B, N), lstm_weights(False, False), np.zeros((B, H))
    codes, scale = RNG.integers(0, 16, (H, N)), RNG.random(H) / 4
    net = unilstm(gates, {}, USUAL)
    inner = net.uniDirectionalLSTM.weightParams
    inner.inputGateWeightMatrix.CopyFrom(linear_weights(codes, 4, scale, -scale))
    inner.blockInputRecursionMatrix.CopyFrom(half_weights(gates["block"][1]))
    _, r, b, p = gates["input"]
    gates["input"] = ((codes - 1) * scale[:, None], r, b, p)
    w, r, b, p = gates["block"]
    gates["block"] = (w, r.astype(np.float16).astype(np.float64), b, p)
    functions = [ACTIVATIONS[n][1] for n in USUAL]
    expected, _ = lstm_steps(x, gates, zeros, zeros, functions)
    near(run(net, {"x": blob(x)})["y"], blob(expected[-1:]))


def bilstm(
    both: Any,
    flags: dict[str, Any],
    names: Sequence[str],
    back: Sequence[str] | None = None,
    **params: Any,
) -> Any:
    bias, peepholes = (flags.get(k, False) for k in ("hasBiasVectors", "hasPeepholeVectors"))
    net = layer(
        "biDirectionalLSTM",
        params.pop("inputs", ["x"]),
        params.pop("outputs", ["y"]),
        inputVectorSize=N,
        outputVectorSize=H,
        activationsForwardLSTM=[message(n) for n in names],
        activationsBackwardLSTM=[message(n) for n in back or names],
        params=flags,
        **params,
    )
    for gates in both:
        part = net.biDirectionalLSTM.weightParams.add()
        for key, value in lstm_message(gates, bias, peepholes).items():
            fill(part, key, value)
    return net


@pytest.mark.device
@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("rank5", [False, True])
@pytest.mark.parametrize("back", [("hard", "tanh", "scaled"), ("sigmoid", "softsign", "ReLU")])
def test_both_directions(sequence: bool, given: bool, rank5: bool, back: tuple[str, ...]) -> None:
    """At each step the backward result that was made when that step was read."""
    x, states = normal(T, B, N), [normal(B, H) for _ in range(4)]
    both = [lstm_weights(), lstm_weights()]
    names = ("hard", "tanh", "scaled")
    functions = [ACTIVATIONS[n][1] for n in names]
    other = [ACTIVATIONS[n][1] for n in back]
    inputs, outputs = ["x", "hf", "cf", "hb", "cb"], ["y", "h1", "c1", "h2", "c2"]
    flags = {
        "sequenceOutput": sequence,
        "hasBiasVectors": True,
        "hasPeepholeVectors": True,
        "forgetBias": True,
    }
    net = bilstm(both, flags, names, back, inputs=inputs if given else ["x"], outputs=outputs)
    feeds = {"x": blob(x)}
    if given:
        feeds |= {name: blob(s) for name, s in zip(inputs[1:], states, strict=True)}
    else:
        states = [np.zeros((B, H))] * 4
    forward, c1 = lstm_steps(x, both[0], *states[:2], functions, forget_bias=True)
    backward, c2 = lstm_steps(x, both[1], *states[2:], other, True, forget_bias=True)
    if sequence:
        expected = np.concatenate([forward, backward[::-1]], axis=-1)
    else:
        expected = np.concatenate([forward[-1:], backward[-1:]], axis=-1)
    found = run_everywhere(net, feeds, outputs, rank5=rank5)
    near(found["y"], blob(expected))
    for name, state in zip(outputs[1:], (forward[-1], c1, backward[-1], c2), strict=True):
        near(found[name], blob(state))


def test_pytorch_agrees() -> None:
    torch = pytest.importorskip("torch")
    x = normal(T, B, N)
    with torch.no_grad():
        other = torch.nn.LSTM(N, H)
        y = other(torch.from_numpy(x))[0].numpy()
        w, r, bw, br = (p.numpy() for p in other.parameters())
    parts = [np.split(v, 4) for v in (w, r, bw + br)]
    gates = {g: (*(p[k] for p in parts), np.zeros(H)) for k, g in enumerate(LSTM_GATES)}
    net = unilstm(gates, {"sequenceOutput": True, "hasBiasVectors": True}, USUAL)
    near(run(net, {"x": blob(x)})["y"], blob(y))


def wrong() -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    x, gates = blob(normal(T, B, N)), lstm_weights()
    states = bilstm([gates, gates], {}, USUAL)
    states.input[:] = ["x", "h", "c"]
    state = {"h": blob(normal(B, H))}
    return {
        "two activations": (unilstm(gates, {}, USUAL[:2]), {"x": x}),
        "no activations": (unilstm(gates, {"hasBiasVectors": True}, ()), {"x": x}),
        "two inputs": (unilstm(gates, {}, USUAL, inputs=["x", "h"]), {"x": x} | state),
        "one direction": (bilstm([gates], {}, USUAL), {"x": x}),
        "states of one direction": (states, {"x": x, "c": state["h"]} | state),
    }


@pytest.mark.parametrize("what", list(wrong()))
def test_contradictions(what: str) -> None:
    net, feeds = wrong()[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, feeds)
