"""Recurrent cells and sequences."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.cells import (
    BACKENDS,
    CELLS,
    Cell,
    blobs,
    close,
    made,
    run,
    states_of,
)
from tests.openvino_writer import Net

from vknn.errors import ShapeError

# --- cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cell", CELLS, ids=range(len(CELLS)))
def test_cells(cell: Cell, backend: str, tmp_path: Path) -> None:
    net = Net()
    feeds = {"x": made(2, cell.inputs)}
    ports = [net.input("x", (2, cell.inputs))]
    for i, state in enumerate(states_of(cell, 2)):
        feeds[f"s{i}"] = state
        ports.append(net.input(f"s{i}", state.shape))
    outputs = [(2, cell.hidden)] * (len(ports) - 1)
    net.layer(f"{cell.kind}Cell", ports, outputs, cell.attributes, blobs(cell), name="y")
    found = run(net.save(tmp_path), feeds, backend)
    expected = cell.step(feeds["x"], list(feeds.values())[1:])
    assert list(found) == (["y.0", "y.1"] if cell.kind == "LSTM" else ["y"])
    for array, wanted in zip(found.values(), expected, strict=True):
        close(array, wanted)


@pytest.mark.parametrize(
    ("attributes", "more", "said"),
    [
        ({"hidden_size": 5}, {}, "weights, which do not suit 4 gates of 5"),
        ({"activations": "tanh"}, {}, "1 activations, not 3"),
        ({"activations": "tanh,tanh,step"}, {}, "the activation 'step'"),
        ({"clip": -1}, {}, "clip -1.0 is negative"),
        ({}, {"biases": made(5, 4)}, "20 biases, which do not suit"),
        ({}, {"weights": None}, "has no weights"),
    ],
)
def test_wrong_cells(
    attributes: dict[str, Any], more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    cell = CELLS[0]
    net = Net()
    ports = [net.input("x", (2, 3)), net.input("h", (2, 4)), net.input("c", (2, 4))]
    given = {n: a for n, a in {**blobs(cell), **more}.items() if a is not None}
    net.layer("LSTMCell", ports, [(2, 4)] * 2, {**cell.attributes, **attributes}, given, name="y")
    with pytest.raises(ShapeError, match=said):
        run(net.save(tmp_path), {"x": made(2, 3), "h": made(2, 4), "c": made(2, 4)})


# --- sequences ------------------------------------------------------------------------------------


def expected_sequence(
    cells: list[Cell], directions: list[bool], x: np.ndarray, lengths: Any, states: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Y [T, directions, N, S] and the last states [states, directions, N, S]; x is [T, N, D]."""
    steps, rows = x.shape[:2]
    y = np.zeros((steps, len(cells), rows, cells[0].hidden))
    last = np.zeros((len(states), len(cells), rows, cells[0].hidden))
    for d, n in itertools.product(range(len(cells)), range(rows)):
        size = steps if lengths is None else int(lengths[n])
        first = [s[d, n : n + 1] for s in states]
        y[:size, d, n : n + 1], held = cells[d].walk(x[:size, n : n + 1], first, directions[d])
        for i, state in enumerate(held):
            last[i, d, n] = state[0]
    return y, last


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("direction", ["Forward", "Backward", "Bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_sequences(
    kind: str, direction: str, axis: int, with_lengths: bool, backend: str, tmp_path: Path
) -> None:
    steps, rows, width, hidden = 4, 3, 2, 5
    count = 2 if direction == "Bidirectional" else 1
    cells = [Cell(kind, width, hidden, seed=d) for d in range(count)]
    x = made(steps, rows, width)
    states = [s.reshape(count, rows, hidden) for s in states_of(cells[0], count * rows)]
    lengths = np.array([2, 4, 0], np.int32) if with_lengths else None
    y, last = expected_sequence(cells, [direction == "Backward", True], x, lengths, states)
    net = Net()
    feeds = {"x": x if axis == 0 else x.swapaxes(0, 1)}
    ports = [net.input("x", feeds["x"].shape)]
    for i, state in enumerate(states):
        feeds[f"s{i}"] = state if count == 2 else state[0]
        ports.append(net.input(f"s{i}", feeds[f"s{i}"].shape))
    if lengths is not None:
        feeds["lengths"] = lengths
        ports.append(net.input("lengths", (rows,), "I32"))
    sizes = (steps, rows) if axis == 0 else (rows, steps)
    held = (rows, hidden) if count == 1 else (count, rows, hidden)
    outputs = [(*sizes, count * hidden), *[held] * len(states)]
    attributes = {**cells[0].attributes, "axis": axis, "direction": direction}
    net.layer(f"{kind}Sequence", ports, outputs, attributes, blobs(*cells), name="y")
    found = run(net.save(tmp_path), feeds, backend)
    wanted = y.transpose(0, 2, 1, 3) if axis == 0 else y.transpose(2, 0, 1, 3)
    close(found["y.0"], wanted.reshape(outputs[0]))
    for i in range(len(states)):
        close(found[f"y.{i + 1}"], last[i].reshape(held))
