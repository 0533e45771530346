"""IntegerLSTM on the device against NumPy, and its reference against an LSTM on floats."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized import gemmlowp as ff
from vknn.ops.recurrent.integer_lstm import IntegerLSTM

Arrays = list[np.ndarray | None]
RNG = np.random.default_rng(23)
WEIGHTS = (1, 2, 3, 4, 7, 8, 9, 10, 11)
#: Scales of x, h, weights, peepholes, norm, biases and the hidden value.
X, H, W, P, N, HIDDEN = 0.02, 0.01, 0.006, 2.0**-15, 5e-5, 0.008


def times(real: float) -> tuple[int, int]:
    q, shift = fp.quantize_multiplier(real)
    return int(q), int(shift)


def lstm(
    gates: int = 4, *, peepholes: bool = False, norm: bool = False, projection: bool = False
) -> IntegerLSTM:
    """An op whose sums have 12 fractional bits."""
    op = IntegerLSTM(
        (times(X * W * 4096),) * gates, (times(H * W * 4096),) * gates, times(2.0**-30 / H)
    )
    if peepholes:
        op = dataclasses.replace(op, peephole_multipliers=(times(2.0**-11 * P * 4096),) * 3)
    if norm:
        scales = tuple(times(N * (1 + i / 3)) for i in range(gates))
        guards = tuple(7 + i for i in range(gates))
        op = dataclasses.replace(op, norm_multipliers=scales, variance_guards=guards)
    if projection:
        op = dataclasses.replace(
            op,
            hidden_multiplier=times(2.0**-30 / HIDDEN),
            projection_multiplier=times(W * HIDDEN / H),
            output_zero=-3,
        )
    return op


def integers(low: int, high: int, dtype: type, *shape: int) -> np.ndarray:
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def arguments(
    op: IntegerLSTM, steps: int, batch: int, inputs: int, units: int, outputs: int = 0
) -> Arrays:
    """Inputs of the op; ``outputs``: of a projection."""
    rows, out = len(op.input_multipliers) * units, outputs or units
    shape = (steps, batch, inputs) if op.layout == 0 else (batch, steps, inputs)
    given: Arrays = [integers(-128, 127, np.int8, *shape)]
    given += [integers(-127, 127, np.int8, rows, n) for n in (inputs, out)]
    given += [integers(-9000, 9000, np.int32, rows) for _ in range(2)]
    given += [integers(-128, 127, np.int8, batch, out)]
    given += [integers(-5000, 5000, np.int16, batch, units)]
    peepholes = integers(-9000, 9000, np.int16, batch, 3 * units)
    given.append(peepholes if op.peephole_multipliers else None)
    if op.norm_multipliers:
        given += [integers(5000, 20000, np.int16, rows), integers(-9999, 9999, np.int32, rows)]
    else:
        given += [None, None]
    if outputs:
        given += [integers(-127, 127, np.int8, outputs, units)]
        given += [integers(-5000, 5000, np.int32, outputs)]
    return given


def check(op: IntegerLSTM, given: Arrays, **options: object) -> None:
    weights = [i for i in WEIGHTS if i < len(given) and given[i] is not None]
    check_op(op, *given, constants=weights, **options)  # type: ignore[arg-type]


OPS = {
    "plain": lstm(),
    "coupled": lstm(3, peepholes=True),
    "peepholes": dataclasses.replace(lstm(peepholes=True), cell_clip=900, layout=1),
    "normalized": lstm(peepholes=True, norm=True),
    "coupled and normalized": dataclasses.replace(lstm(3, norm=True), cell_bits=3),
    "projected": dataclasses.replace(lstm(projection=True), projection_clip=90, layout=1),
    "all": lstm(peepholes=True, norm=True, projection=True),
}


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("name", OPS)
def test_forms(name: str, kind: str) -> None:
    op = OPS[name]
    outputs = 5 if op.projection_multiplier[0] else 0
    access = ("storage",) if kind == "discrete" else ("storage", "texel", "image")
    check(op, arguments(op, 3, 2, 5, 7, outputs), kind=kind, access=access)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 1, 8, 4), (1, 3, 13, 67)])
def test_sizes(sizes: tuple[int, int, int, int]) -> None:
    check(OPS["normalized"], arguments(OPS["normalized"], *sizes), access=("storage",))
    check(OPS["all"], arguments(OPS["all"], *sizes, 3), access=("storage",))


def test_loops_in_several_dispatches() -> None:
    op = OPS["plain"]
    check(op, arguments(op, 7, 2, 3, 5), access=("storage",), max_loop_rounds=70)


def test_sums_that_saturate_and_rows_without_variance() -> None:
    op = OPS["normalized"]
    given = arguments(op, 3, 1, 5, 6)
    assert given[3] is not None
    given[3][:6], given[3][6:12] = 2**31 - 10**6, -(2**31) + 10**6
    check(op, given, access=("storage",))


def test_a_state_too_large_for_a_workgroup_takes_dispatches() -> None:
    op = OPS["plain"]
    graph = single_op_graph(op, arguments(op, 1, 1, 2, 3)[:7], WEIGHTS[:4])
    limits = dataclasses.replace(shared_device().limits, shared_memory=64)
    found = candidates(graph.nodes[0], limits, LoweringOptions())
    assert [c.name for c in found] == ["steps"]


def real_lstm(given: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """A plain LSTM on the numbers that the integers stand for; Y and the last c."""
    x, w, r, b, _, h, c = (np.asarray(a, np.float64) for a in given[:7])
    h, c = h * H, c * 2.0**-11
    steps = []
    for step in x * X:
        f, g, o, i = np.split(step @ (w * W).T + b * X * W + h @ (r * W).T, 4, axis=1)
        f, o, i = (1 / (1 + np.exp(-v)) for v in (f, o, i))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        steps.append(h)
    return np.stack(steps), c


@pytest.mark.host
def test_near_an_lstm_on_floats() -> None:
    given = arguments(OPS["plain"], 5, 3, 4, 6)
    assert given[4] is not None and given[3] is not None
    given[4][:] = 0
    given[3] //= 4
    y, h, c = OPS["plain"].reference(*given)
    real, cell = real_lstm(given)
    assert np.abs(y * H - real).max() < 2.5 * H
    assert np.abs(c * 2.0**-11 - cell).max() < 0.03
    np.testing.assert_array_equal(h, y[-1])
    assert np.abs(real).max() > 0.5


@pytest.mark.host
def test_functions_are_near_the_real_ones() -> None:
    raw = np.arange(-32768, 32768)
    assert np.abs(ff.logistic(raw) / 32768 - 1 / (1 + np.exp(-raw / 4096))).max() < 4e-4
    for bits in range(7):
        real = np.tanh(raw / 2.0 ** (15 - bits))
        found = ff.tanh(raw, bits)
        assert np.abs(found / 32768 - real).max() < 4e-4
        np.testing.assert_array_equal(found[1:], -found[1:][::-1])  # odd


@pytest.mark.host
def test_functions_of_zero_and_of_both_signs() -> None:
    raw = np.arange(1, 32768)
    assert ff.logistic(np.array([0])).tolist() == [16384]
    assert ff.tanh(np.array([0]), 4).tolist() == [0]
    np.testing.assert_array_equal(ff.logistic(raw) + ff.logistic(-raw), ff.ONE)


def types(given: Arrays) -> list[TensorType | None]:
    return [None if a is None else TensorType.of(a) for a in given]


@pytest.mark.host
def test_nonsense_is_refused() -> None:
    op = OPS["plain"]
    given = types(arguments(op, 2, 1, 3, 4))
    for change, message in (
        ({0: TensorType((2, 3), DType.INT8)}, "x is"),
        ({2: TensorType((16, 5), DType.INT8)}, "h is"),
        ({6: TensorType((1, 4), DType.INT8)}, "c is"),
        ({7: TensorType((1, 12), DType.INT16)}, "no multiplier of P"),
        ({8: TensorType((16,), DType.INT16)}, "without its bias"),
    ):
        with pytest.raises(ShapeError, match=message):
            op.infer(*(change.get(i, t) for i, t in enumerate(given)))
    for wrong, message in (
        ({"cell_bits": 7}, "7 bits"),
        ({"layout": 2}, "no layout"),
        ({"projection_clip": 128}, "a bound of 128"),
        ({"state_multipliers": ()}, "multipliers for its gates"),
    ):
        with pytest.raises(ShapeError, match=message):
            dataclasses.replace(op, **wrong).infer(*given)  # type: ignore[arg-type]


def test_weights_that_are_no_constants_stay_on_the_host() -> None:
    op = OPS["plain"]
    check_op(op, *arguments(op, 2, 1, 3, 5)[:7], host=True)
