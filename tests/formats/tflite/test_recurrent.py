"""States of recurrent operators: kept from run to run, cleared by a reset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.nets import run
from tests.helpers import shared_device
from tests.tflite_writer import Net

from vknn.errors import OutOfMemoryError, ShapeError
from vknn.session import Session

BATCH, SIZE, UNITS, OUT, MEMORY = 2, 3, 5, 4, 3
RNG = np.random.default_rng(41)
X = RNG.standard_normal((BATCH, 6, SIZE)).astype(np.float32)


def floats(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.4).astype(np.float32)


def lstm(steps: int) -> Net:
    """An LSTM with a projection."""
    net = Net()
    x = net.tensor("x", (BATCH, steps, SIZE))
    w = [net.tensor(f"w{i}", data=floats(UNITS, SIZE) + i / 9) for i in range(4)]
    r = [net.tensor(f"r{i}", data=floats(UNITS, OUT) - i / 9) for i in range(4)]
    b = [net.tensor(f"b{i}", data=floats(UNITS)) for i in range(4)]
    projection = net.tensor("p", data=floats(OUT, UNITS))
    states = [net.tensor(f"s{n}", (BATCH, n), is_variable=True) for n in (OUT, UNITS)]
    net.inputs, net.outputs = [x], [net.tensor("y", (BATCH, steps, OUT))]
    given = [x, *w, *r, -1, -1, -1, *b, projection, -1, *states]
    options = {"fused_activation_function": 4}
    net.add("UNIDIRECTIONAL_SEQUENCE_LSTM", given, net.outputs, options)
    return net


def rnn(steps: int) -> Net:
    """A hybrid RNN, whose states are rounded each time."""
    net = Net()
    x = net.tensor("x", (BATCH, steps, SIZE))
    w, r = (
        net.tensor(name, data=(floats(UNITS, n) * 99).astype(np.int8), dtype="int8", scale=0.01)
        for name, n in (("w", SIZE), ("r", UNITS))
    )
    given = [x, w, r, net.tensor("b", data=floats(UNITS))]
    given.append(net.tensor("h", (BATCH, UNITS), is_variable=True))
    net.inputs, net.outputs = [x], [net.tensor("y", (BATCH, steps, UNITS))]
    options = {"fused_activation_function": 4}
    net.add("UNIDIRECTIONAL_SEQUENCE_RNN", given, net.outputs, options)
    return net


def int8_lstm(steps: int, hidden_scale: float = 0.02) -> Net:
    """An LSTM on integers, whose h begins with its zero point."""
    net = Net()
    int8 = {"dtype": "int8", "scale": 0.02}
    x = net.tensor("x", (BATCH, steps, SIZE), **int8, zero_point=3)
    w, r = (
        [net.tensor(f"{k}{i}", data=((floats(UNITS, n) + i / 9) * 90).astype(np.int8), **int8)
         for i in range(4)]
        for k, n in (("w", SIZE), ("r", UNITS))
    )  # fmt: skip
    b = [
        net.tensor(f"b{i}", data=np.full(UNITS, 500 * i, np.int32), dtype="int32", scale=4e-4)
        for i in range(4)
    ]
    h = net.tensor("h", (BATCH, UNITS), **int8, zero_point=-9, is_variable=True)
    c = net.tensor("c", (BATCH, UNITS), "int16", scale=2.0**-11, is_variable=True)
    scales = (0.02, 0.02, 0.02, 0.02, hidden_scale)
    between = [net.tensor(f"i{i}", (), "int8", scale=scale) for i, scale in enumerate(scales)]
    y = net.tensor("y", (BATCH, steps, UNITS), **int8, zero_point=-9)
    net.inputs, net.outputs = [x], [y]
    given = [x, *w, *r, -1, -1, -1, *b, -1, -1, h, c]
    options = {"fused_activation_function": 4}
    net.add("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y], options, intermediates=between)
    return net


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def device(request: pytest.FixtureRequest) -> str:
    return "numpy" if request.param == "numpy" else shared_device()


@pytest.mark.parametrize("make", [lstm, rnn, int8_lstm], ids=["lstm", "rnn", "int8 lstm"])
def test_two_runs_are_one_of_twice_the_steps(make, device: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for steps in (3, 6):
        (tmp_path / f"{steps}.tflite").write_bytes(make(steps).file())
    x = (X * 50).astype(np.int8) if make is int8_lstm else X
    with Session(tmp_path / "6.tflite", device=device) as session:
        whole = session.run({"x": x})["y"]
    with Session(tmp_path / "3.tflite", device=device) as session:
        first = session.run({"x": x[:, :3]})["y"]
        second = session.run({"x": x[:, 3:]})["y"]
        session.reset_state()
        again = session.run({"x": x[:, :3]})["y"]
        assert device == "numpy" or set(session.placement.values()) == {"vulkan"}
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole, atol=1e-6)
    np.testing.assert_array_equal(again, first)
    assert np.ptp(whole) > 0.1


def svdf(bias: np.ndarray) -> Net:
    """An SVDF of rank 2."""
    net = Net()
    x = net.tensor("x", (BATCH, SIZE))
    filters = 2 * UNITS
    given = [x, net.tensor("w", data=floats(filters, SIZE))]
    given += [net.tensor("t", data=floats(filters, MEMORY)), net.tensor("b", data=bias)]
    given.append(net.tensor("s", (BATCH, filters * MEMORY), is_variable=True))
    net.inputs, net.outputs = [x], [net.tensor("y", (BATCH, UNITS))]
    net.add("SVDF", given, net.outputs, {"rank": 2, "fused_activation_function": 1})
    return net


def test_svdf_remembers(device: str, tmp_path: Path) -> None:
    bias = floats(UNITS)
    (tmp_path / "svdf.tflite").write_bytes(svdf(bias).file())
    w, t = floats(2 * UNITS, SIZE), floats(2 * UNITS, MEMORY)
    memory = np.zeros((BATCH, 2 * UNITS, MEMORY))
    with Session(tmp_path / "svdf.tflite", device=device) as session:
        for step in range(5):
            found = session.run({"x": X[:, step]})["y"]
            memory = np.concatenate([memory[:, :, 1:], (X[:, step] @ w.T)[:, :, None]], axis=2)
            units = (memory * t).sum(axis=2).reshape(BATCH, UNITS, 2).sum(axis=2)
            np.testing.assert_allclose(found, np.maximum(units + bias, 0), atol=1e-5)
        assert device == "numpy" or set(session.placement.values()) == {"vulkan"}


def test_states_have_the_shape_that_they_say(save: Callable[[bytes], Path]) -> None:
    """A signature with open sizes does not count: nothing else would say how large a state is."""
    net = Net()
    x, y = net.tensor("x", (2, 3)), net.tensor("y", (2, 4))
    w, r = net.tensor("w", data=np.ones((4, 3))), net.tensor("r", data=np.zeros((4, 4)))
    b = net.tensor("b", data=np.ones(4))
    h = net.tensor("h", (2, 4), is_variable=True, shape_signature=[2, -1])
    net.add("RNN", [x, w, r, b, h], [y], {})
    net.inputs, net.outputs = [x], [y]
    assert run(save(net.file()), x=np.ones((2, 3), np.float32))["y"].tolist() == [[4.0] * 4] * 2


@pytest.mark.host
def test_a_state_beyond_all_memory_is_refused(tmp_path: Path) -> None:
    """Before anything is allocated, with the file's name."""
    net = Net()
    x = net.tensor("x", (BATCH, 6, SIZE))
    w, r = (net.tensor(name, data=floats(UNITS, n)) for name, n in (("w", SIZE), ("r", UNITS)))
    state = net.tensor("h", (BATCH, 1 << 28), is_variable=True)
    net.inputs, net.outputs = [x], [net.tensor("y", (BATCH, 6, UNITS))]
    given = [x, w, r, net.tensor("b", data=floats(UNITS)), state]
    net.add("UNIDIRECTIONAL_SEQUENCE_RNN", given, net.outputs, {"fused_activation_function": 4})
    path = tmp_path / "net.tflite"
    path.write_bytes(net.file())
    with pytest.raises(
        OutOfMemoryError, match=r"net\.tflite: its state has 2147483648 bytes, of which"
    ):
        Session(path, device="numpy", memory_limit="1GB")


@pytest.mark.host
def test_a_hidden_scale_of_zero_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(int8_lstm(3, hidden_scale=0.0).file())
    with (
        pytest.raises(ShapeError, match="a scale of 0 for its hidden value"),
        Session(path, device="numpy") as session,
    ):
        session.run({"x": (X[:, :3] * 50).astype(np.int8)})
