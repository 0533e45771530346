"""Recurrent operators over several runs, against TensorFlow Lite's own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.tflite_writer import Net, Table

from vknn.session import Session

Feeds = dict[str, np.ndarray]
BATCH, SIZE, UNITS, OUT = 2, 5, 6, 3


def kernels(file: bytes, runs: Sequence[Feeds]) -> list[Feeds]:
    """Outputs of the reference kernels, run after run."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=file, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    results = []
    for feeds in runs:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], feeds[detail["name"]])
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        results.append({d["name"]: interpreter.get_tensor(d["index"]).copy() for d in outputs})
    return results


def check(net: Net, runs: Sequence[Feeds], folder: Path, backend: str) -> None:
    """Floats within 1e-5 of the largest, everything else exact; all of it on the device."""
    file, path = net.file(), folder / "net.tflite"
    path.write_bytes(file)
    with Session(path, device="numpy" if backend == "numpy" else shared_device()) as session:
        found = [session.run(feeds) for feeds in runs]
        assert backend == "numpy" or "host" not in session.placement.values()
    for given, wanted in zip(found, kernels(file, runs), strict=True):
        for name, expected in wanted.items():
            assert (given[name].shape, given[name].dtype) == (expected.shape, expected.dtype)
            if expected.dtype.kind == "f":
                most = float(np.abs(expected).max(initial=0.0))
                np.testing.assert_allclose(given[name], expected, rtol=0, atol=1e-5 * most)
            else:
                assert np.array_equal(given[name], expected)


def integers(shape: Sequence[int], dtype: str, most: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)


def int8_lstm(
    held: str,
    between: Sequence[tuple[float, int]],
    *,
    coupled: bool = True,
    peepholes: bool = False,
    clip: float = 0.0,
) -> Net:
    """A step with norm and projection; ``held``: the type of the tensor that holds h."""
    net = Net()

    def kind(name: str, shape: Sequence[int], dtype: str, most: int, scale: float) -> list[int]:
        """Constants of the gates."""
        found = [-1] if coupled else []
        for gate in range(len(found), 3 if name == "p" else 4):
            data = integers(shape, dtype, most, 9 * gate + len(shape))
            found.append(net.tensor(f"{name}{gate}", data=data, dtype=dtype, scale=scale))
        return found

    x = net.tensor("x", (BATCH, SIZE), "int8", scale=0.01, zero_point=3)
    w = kind("w", (UNITS, SIZE), "int8", 127, 0.008)
    r = kind("r", (UNITS, OUT), "int8", 127, 0.008)
    p = kind("p", (UNITS,), "int16", 32767, 3e-5) if peepholes else [-1] * 3
    b = kind("b", (UNITS,), "int32", 3000, 3e-8)
    projection = integers((OUT, UNITS), "int8", 127, 5)
    moved = integers((OUT,), "int32", 9000, 6)
    zero = 5 if held == "int8" else 0
    tensors = [
        net.tensor("projection", data=projection, dtype="int8", scale=0.004),
        net.tensor("moved", data=moved, dtype="int32", scale=1e-7),
        net.tensor("h", (BATCH, OUT), held, scale=0.005, zero_point=zero, is_variable=True),
        net.tensor("c", (BATCH, UNITS), "int16", scale=2.0**-15, is_variable=True),
    ]
    norm = kind("n", (UNITS,), "int16", 32767, 3e-5)
    steps = [
        net.tensor(f"i{i}", (), "int16", scale=scale, zero_point=at)
        for i, (scale, at) in enumerate(between)
    ]
    y = net.tensor("y", (BATCH, OUT), "int8", scale=0.005, zero_point=zero)
    options = {"fused_activation_function": 4, "cell_clip": clip, "proj_clip": clip}
    inputs = [x, *w, *r, *p, *b, *tensors, *norm]
    net.add("LSTM", inputs, [y], options, intermediates=steps)
    net.inputs, net.outputs = [x], [y]
    return net


FIVE = [(0.007, 0), (0.008, 0), (0.007, 0), (0.008, 0), (0.007, 3)]
TWELVE = [(0.004 + 0.003 * (7 * i % 12), 31 * i % 50 - 20) for i in range(12)]
STEPS = [{"x": integers((BATCH, SIZE), "int8", 127, seed)} for seed in range(4)]


@pytest.mark.parametrize("held", ["int8", "int16"])
@pytest.mark.parametrize("coupled", [True, False])
def test_lstm_on_integers(held: str, coupled: bool, tmp_path: Path, backend: str) -> None:
    """h may lie in a tensor of int16."""
    net = int8_lstm(held, FIVE, coupled=coupled, peepholes=True)
    check(net, STEPS, tmp_path, backend)


@pytest.mark.parametrize("held", ["int8", "int16"])
@pytest.mark.parametrize("coupled", [True, False])
def test_lstm_whose_products_have_8_bits(
    held: str, coupled: bool, tmp_path: Path, backend: str
) -> None:
    net = int8_lstm(held, TWELVE, coupled=coupled, clip=0.0 if coupled else 0.3)
    check(net, STEPS, tmp_path, backend)


def floats(shape: Sequence[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype(np.float32)


@pytest.mark.parametrize("name", ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_states_that_are_vectors(name: str, tmp_path: Path, backend: str) -> None:
    net, shape = Net(), (BATCH, SIZE) if name == "LSTM" else (BATCH, 3, SIZE)
    x = net.tensor("x", shape)
    w = [net.tensor(f"w{i}", data=floats((UNITS, SIZE), i)) for i in range(4)]
    r = [net.tensor(f"r{i}", data=floats((UNITS, UNITS), 4 + i)) for i in range(4)]
    b = [net.tensor(f"b{i}", data=floats((UNITS,), 8 + i)) for i in range(4)]
    states = [net.tensor(k, (BATCH * UNITS,), is_variable=True) for k in "hc"]
    y = net.tensor("y", (*shape[:-1], UNITS))
    inputs = [x, *w, *r, -1, -1, -1, *b, -1, -1, *states]
    net.add(name, inputs, [y], {"fused_activation_function": 4})
    net.inputs, net.outputs = [x], [y]
    check(net, [{"x": floats(shape, seed)} for seed in range(3)], tmp_path, backend)


@pytest.mark.parametrize("activation", [0, 5])
@pytest.mark.parametrize("time_major", [False, True])
def test_auxiliary_inputs_longer_than_the_input(
    activation: int, time_major: bool, tmp_path: Path, backend: str
) -> None:
    """The kernel steps through them by the size of the input where sequences are time-major."""
    net, steps = Net(), (4, BATCH) if time_major else (BATCH, 4)
    x, aux = net.tensor("x", (*steps, SIZE)), net.tensor("aux", (*steps, SIZE + 2))
    inputs = [x]
    for i in range(2):
        weights = [floats((UNITS, SIZE), i), floats((UNITS, UNITS), 2 + i), floats((UNITS,), 4 + i)]
        inputs += [net.tensor(f"w{i}{k}", data=w) for k, w in enumerate(weights)]
        inputs.append(net.tensor(f"h{i}", (BATCH, UNITS), is_variable=True))
    inputs += [aux, *(net.tensor(f"a{i}", data=floats((UNITS, SIZE + 2), i)) for i in range(2))]
    y = net.tensor("y", (*steps, 2 * UNITS))
    options = {
        "time_major": time_major,
        "merge_outputs": True,
        "fused_activation_function": activation,
    }
    net.add("BIDIRECTIONAL_SEQUENCE_RNN", inputs, [y], options)
    net.inputs, net.outputs = [x, aux], [y]
    feeds = {"x": floats((*steps, SIZE), 6), "aux": floats((*steps, SIZE + 2), 7)}
    check(net, [feeds] * 2, tmp_path, backend)


def rnn_step(net: Net, x: int, name: str) -> int:
    """h = x + h, by an RNN without an activation."""
    one = np.eye(2, dtype=np.float32)
    inputs = [x, *(net.tensor(f"{name}{i}", data=one) for i in range(2))]
    inputs.append(net.tensor(f"{name}b", data=np.zeros(2, np.float32)))
    inputs.append(net.tensor(f"{name}h", (1, 2), is_variable=True))
    y = net.tensor(f"{name}y", (1, 2))
    net.add("RNN", inputs, [y], {"fused_activation_function": 0})
    return y


def test_variables_of_a_loop(tmp_path: Path, backend: str) -> None:
    """They are kept from round to round, and begin anew with each run."""
    net = Net()
    net.inputs = [net.tensor("n", (1,), "int32"), net.tensor("x", (1, 2))]
    until, body = net.another(), net.another()
    until.inputs = [until.tensor("n", (1,), "int32"), until.tensor("x", (1, 2))]
    until.outputs = [until.tensor("less", (1,), "bool")]
    until.add("LESS", [until.inputs[0], until.tensor("k", data=[4], dtype="int32")], until.outputs)
    body.inputs = [body.tensor("n", (1,), "int32"), body.tensor("x", (1, 2))]
    more = body.tensor("more", (1,), "int32")
    body.add("ADD", [body.inputs[0], body.tensor("one", data=[1], dtype="int32")], [more], {})
    body.outputs = [more, rnn_step(body, body.inputs[1], "r")]
    net.outputs = [net.tensor("m", (1,), "int32"), net.tensor("y", (1, 2))]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    net.add("WHILE", net.inputs, net.outputs, options)
    x = np.ones((1, 2), np.float32)
    check(net, [{"n": np.array([n], np.int32), "x": x} for n in (0, 0, 2, 9)], tmp_path, backend)


def test_variables_of_a_branch(tmp_path: Path, backend: str) -> None:
    """They begin anew each time."""
    net = Net()
    net.inputs = [net.tensor("c", (1,), "bool"), net.tensor("x", (1, 2))]
    for name in ("then", "else"):
        branch = net.another()
        branch.inputs = [branch.tensor("x", (1, 2))]
        branch.outputs = [rnn_step(branch, branch.inputs[0], name)]
    net.outputs = [net.tensor("y", (1, 2))]
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    net.add("IF", net.inputs, net.outputs, options)
    x = np.ones((1, 2), np.float32)
    check(net, [{"c": np.array([c]), "x": x} for c in (True, True, False)], tmp_path, backend)


def sparse(net: Net, name: str, shape: tuple[int, int], seed: int) -> int:
    """Weights of int8 of which every second block of 16 in a row is there."""
    rows, columns = shape[0], shape[1] // 16
    blocks = [(row, k) for row in range(rows) for k in range(columns) if (row + k + seed) % 2]
    starts = np.cumsum([0, *np.bincount([row for row, _ in blocks], minlength=rows)])
    held = [Table("Int32Vector", {"values": v}) for v in (starts, [k for _, k in blocks])]
    axes = [
        {"format": 0, "dense_size": rows},
        {"format": 1, "array_segments": held[0], "array_indices": held[1]},
        {"format": 0, "dense_size": 16},
    ]
    content = {"traversal_order": [0, 1, 2], "block_map": [1]}
    content["dim_metadata"] = [Table("DimensionMetadata", axis) for axis in axes]
    data = integers((len(blocks), 16), "int8", 127, seed)
    sparsity = Table("SparsityParameters", content)
    return net.tensor(name, shape, "int8", data=data, scale=0.01, sparsity=sparsity)


@pytest.mark.parametrize("coupled", [True, False])
def test_lstm_with_sparse_weights(coupled: bool, tmp_path: Path, backend: str) -> None:
    net, first = Net(), int(coupled)
    x = net.tensor("x", (BATCH, 32))
    missing = [-1] * first
    w = missing + [sparse(net, f"w{i}", (16, 32), i) for i in range(first, 4)]
    r = missing + [sparse(net, f"r{i}", (16, 32), 4 + i) for i in range(first, 4)]
    b = missing + [net.tensor(f"b{i}", data=floats((16,), i)) for i in range(first, 4)]
    projection = sparse(net, "p", (32, 16), 9)
    states = [net.tensor(k, (BATCH, n), is_variable=True) for k, n in (("h", 32), ("c", 16))]
    y = net.tensor("y", (BATCH, 32))
    inputs = [x, *w, *r, -1, -1, -1, *b, projection, -1, *states]
    net.add("LSTM", inputs, [y], {"fused_activation_function": 4})
    net.inputs, net.outputs = [x], [y]
    check(net, [{"x": floats((BATCH, 32), seed)} for seed in range(4)], tmp_path, backend)
