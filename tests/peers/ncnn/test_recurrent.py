"""RNN, GRU and LSTM against ncnn: the grids of its own tests, int8 weights, ranks, states."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import (
    TOLERANCE,
    Arrays,
    assert_close,
    check,
    one_layer,
    run_ncnn,
    run_vknn,
)

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.formats.ncnn.weights import TAG_INT8

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BIAS_ROWS = {"RNN": 1, "GRU": 4, "LSTM": 4}
BACKENDS = ("numpy", "vulkan")

#: Size of a step, steps, num_output, hidden_size (0: the same) of ncnn's tests.
SIZES = [(4, 1, 2, 0), (8, 2, 2, 0), (16, 8, 7, 0), (4, 4, 1, 0), (2, 5, 17, 15)]
MORE_SIZES = [
    (17, 8, 8, 0),
    (19, 15, 8, 0),
    (5, 16, 16, 0),
    (3, 16, 8, 0),
    (8, 16, 16, 0),
    (31, 3, 31, 0),
    (2, 5, 79, 33),
]


class Case:
    """A layer with weights like those of ncnn's tests, uniform in -1..1 or int8."""

    def __init__(
        self, type_: str, direction: int, sizes: tuple[int, ...], int8: bool = False, seed: int = 0
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.size, self.steps, self.out, hidden = sizes
        self.units = hidden if hidden and type_ == "LSTM" else self.out
        self.directions = 2 if direction == 2 else 1
        self.type, self.int8 = type_, int8
        rows = self.directions * GATES[type_] * self.units
        self.line = f"{type_} 0={self.out} 1={rows * self.size} 2={direction}"
        self.weights = {
            "weight_xc": self._matrix(rows, self.size),
            "bias_c": self.uniform(self.directions * BIAS_ROWS[type_] * self.units),
            "weight_hc": self._matrix(rows, self.out),
        }
        if self.units != self.out:
            self.line += f" 3={self.units}"
            self.weights["weight_hr"] = self.uniform(self.directions * self.out, self.units)
        if int8:
            self.line += " 8=2"
            for name in ("weight_xc_scale", "weight_hc_scale"):
                self.weights[name] = self.rng.uniform(100, 200, rows).astype(np.float32)

    def _matrix(self, *shape: int) -> np.ndarray:
        if not self.int8:
            return self.uniform(*shape)
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def uniform(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return self.rng.uniform(-scale, scale, shape).astype(np.float32)

    @property
    def x(self) -> np.ndarray:
        return self.uniform(self.steps, self.size, scale=10.0 if self.int8 else 1.0)

    @property
    def states(self) -> list[np.ndarray]:
        widths = (self.out, self.units) if self.type == "LSTM" else (self.out,)
        scale = 10.0 if self.int8 else 1.0
        return [self.uniform(self.directions, width, scale=scale) for width in widths]

    @property
    def tops(self) -> int:
        """Outputs with all states."""
        return 3 if self.type == "LSTM" else 2


def run(case: Case, *inputs: np.ndarray, tops: int = 1, **options: object) -> None:
    for backend in BACKENDS:
        check(case.line, *inputs, tops=tops, weights=case.weights, backend=backend, **options)  # type: ignore[arg-type]


def ids(sizes: tuple[int, ...]) -> str:
    return "-".join(map(str, sizes))


def check_all(case: Case) -> None:
    """A sequence alone, with states in and out, in alone, out alone."""
    run(case, case.x)
    run(case, case.x, *case.states, tops=case.tops)
    run(case, case.x, *case.states)
    run(case, case.x, tops=case.tops)


@pytest.mark.parametrize("sizes", SIZES, ids=ids)
@pytest.mark.parametrize("direction", [0, 1, 2])
@pytest.mark.parametrize("type_", GATES)
def test_sequences(type_: str, direction: int, sizes: tuple[int, ...]) -> None:
    case = Case(type_, direction, sizes)
    run(case, case.x)
    run(case, case.x, *case.states, tops=case.tops)


@pytest.mark.parametrize("sizes", SIZES, ids=ids)
@pytest.mark.parametrize("direction", [0, 1, 2])
@pytest.mark.parametrize("type_", GATES)
def test_int8_weights(type_: str, direction: int, sizes: tuple[int, ...]) -> None:
    case = Case(type_, direction, sizes, int8=True)
    run(case, case.x)
    run(case, case.x, *case.states, tops=case.tops)


@pytest.mark.parametrize("direction", [0, 2])
@pytest.mark.parametrize("type_", GATES)
def test_states_in_or_out_alone(type_: str, direction: int) -> None:
    for int8 in (False, True):
        case = Case(type_, direction, (5, 3, 6, 0), int8)
        run(case, case.x, *case.states)
        run(case, case.x, tops=case.tops)


@pytest.mark.slow
@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("sizes", [*SIZES, *MORE_SIZES], ids=ids)
@pytest.mark.parametrize("direction", [0, 1, 2])
@pytest.mark.parametrize("type_", GATES)
def test_whole_grid(type_: str, direction: int, sizes: tuple[int, ...], int8: bool) -> None:
    for seed in range(1, 4):
        check_all(Case(type_, direction, sizes, int8, seed))


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("type_", GATES)
def test_steps_of_zeros(type_: str, int8: bool) -> None:
    case = Case(type_, 0, (5, 4, 3, 0), int8)
    x = case.x
    x[1] = 0
    run(case, x)


@pytest.mark.parametrize("storage", ["fp16", "table"])
@pytest.mark.parametrize("type_", GATES)
def test_ways_to_store_weights(type_: str, storage: str) -> None:
    case = Case(type_, 2, (3, 2, 5, 4))
    run(case, case.x, storage=storage)


@pytest.mark.parametrize("type_", GATES)
def test_ranks(type_: str) -> None:
    case = Case(type_, 1, (5, 3, 6, 4))
    blob = case.uniform(2, 3, 4, 5)
    for x in (blob, blob[1], blob[0, :1], blob[0, 0], blob[0, 0, 0]):
        run(case, x)


@pytest.mark.parametrize("type_", GATES)
def test_given_states_keep_their_shape(type_: str) -> None:
    case = Case(type_, 0, (5, 3, 6, 4))
    run(case, case.x, *(state[0] for state in case.states), tops=case.tops)


def test_lstm_ignores_a_second_input_alone() -> None:
    case = Case("LSTM", 0, (5, 3, 6, 0))
    run(case, case.x, case.states[0])


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
def test_random_weights(int8: bool, tmp_path: Path) -> None:
    case = Case("LSTM", 2, (5, 3, 6, 4), int8)
    path = tmp_path / "net.param"
    path.write_text(one_layer(case.line, 1))
    write_random_weights(path, path.with_suffix(".bin"))
    x = {"x0": case.x}
    expected, actual = run_ncnn(path, x, ["y0"])["y0"], run_vknn(path, x, "numpy")["y0"]
    assert_close(actual, expected, TOLERANCE, "random weights")
    assert np.ptp(actual) > 0.05


# --- what is refused ------------------------------------------------------------------------------


def refused(folder: Path, line: str, *inputs: np.ndarray, weights: Arrays, tops: int = 1) -> str:
    """Texts of the errors; ncnn itself reads beyond its arrays."""
    path = folder / "net.param"
    path.write_text(one_layer(line, len(inputs), tops))
    arrays = [_stored(array, name.endswith("_scale")) for name, array in weights.items()]
    path.with_suffix(".bin").write_bytes(b"".join(arrays))
    with pytest.raises((ModelFormatError, ShapeError)) as caught:
        run_vknn(path, {f"x{i}": x for i, x in enumerate(inputs)}, "numpy")
    return str(caught.value)


def _stored(array: np.ndarray, untagged: bool) -> bytes:
    if untagged:
        return array.tobytes()
    tag = TAG_INT8 if array.dtype == np.int8 else 0
    data = struct.pack("<I", tag) + array.tobytes()
    return data + b"\0" * (-len(data) % 4)


@pytest.mark.parametrize("type_", GATES)
def test_other_shapes_are_refused(type_: str, tmp_path: Path) -> None:
    case = Case(type_, 2, (5, 3, 6, 0))
    assert "weight_data_size" in refused(tmp_path, case.line, case.x[:, :4], weights=case.weights)
    states = [state[:1] for state in case.states]
    assert "initial state" in refused(tmp_path, case.line, case.x, *states, weights=case.weights)
    odd = case.line.replace(" 1=", " 1=1")
    assert "multiple" in refused(tmp_path, odd, case.x, weights=case.weights)
    assert "direction" in refused(
        tmp_path, case.line.replace(" 2=2", " 2=3"), case.x, weights=case.weights
    )


def test_missing_tops_are_refused(tmp_path: Path) -> None:
    case = Case("LSTM", 0, (5, 3, 6, 0))
    assert "states" in refused(tmp_path, case.line, case.x, weights=case.weights, tops=2)


@pytest.mark.parametrize("type_", GATES)
def test_int8_without_scales_and_scales_without_int8_are_refused(
    type_: str, tmp_path: Path
) -> None:
    case = Case(type_, 0, (5, 3, 6, 0), int8=True)
    plain = Case(type_, 0, (5, 3, 6, 0))
    line = case.line.replace(" 8=2", "")
    assert "int8_scale_term" in refused(tmp_path, line, case.x, weights=case.weights)
    weights = {**case.weights, "weight_hc": plain.weights["weight_hc"]}
    assert "int8_scale_term" in refused(tmp_path, case.line, case.x, weights=weights)


@pytest.mark.parametrize("type_", ["RNN", "GRU"])
def test_int8_volumes_are_refused(type_: str, tmp_path: Path) -> None:
    case = Case(type_, 0, (5, 3, 6, 0), int8=True)
    assert "two axes" in refused(tmp_path, case.line, case.x[None], weights=case.weights)
