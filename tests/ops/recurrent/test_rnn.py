"""RNN, GRU and LSTM on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph

from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.recurrent.rnn import ACTIVATIONS, GRU, LSTM, RNN

Arrays = list[np.ndarray | None]
RNG = np.random.default_rng(17)


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def arguments(
    op: RNN | GRU | LSTM,
    steps: int,
    batch: int,
    inputs: int,
    hidden: int,
    *,
    outputs: int = 0,
    states: bool = False,
    bias: bool = True,
    peepholes: bool = False,
    norm: bool = False,
) -> Arrays:
    """Inputs of the op; ``outputs``: of a projection."""
    d, rows, out = op.directions, op.gates * hidden, outputs or hidden
    x = floats(steps, batch, inputs) if op.layout == 0 else floats(batch, steps, inputs)
    given: Arrays = [x, floats(d, rows, inputs, scale=inputs**-0.5)]
    given += [floats(d, rows, out, scale=out**-0.5), floats(d, 2 * rows) if bias else None]
    both = (d, batch) if op.layout == 0 else (batch, d)
    given.append(floats(*both, out) if states else None)
    if isinstance(op, LSTM):
        given.append(floats(*both, hidden) if states else None)
        given.append(floats(d, 3 * hidden) if peepholes else None)
        given.append(floats(d, outputs, hidden, scale=hidden**-0.5) if outputs else None)
        given.append(floats(d, outputs) if outputs else None)
        given.append(floats(d, rows) if norm else None)
    return given


def check(op: Op, given: Arrays, **options: object) -> None:
    """With every weight a constant."""
    weights = [i for i in (1, 2, 3, 6, 7, 8, 9) if i < len(given) and given[i] is not None]
    check_op(op, *given, constants=weights, **options)  # type: ignore[arg-type]


def reset_last(**named: object) -> GRU:
    return GRU(linear_before_reset=True, **named)  # type: ignore[arg-type]


OPS = {"rnn": RNN, "gru": GRU, "gru reset last": reset_last, "lstm": LSTM}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", OPS)
def test_directions_and_layouts(name: str, direction: str) -> None:
    layout = int(direction == "reverse")
    op = OPS[name](direction=direction, layout=layout)  # type: ignore[operator]
    check(op, arguments(op, 3, 2, 5, 6, states=layout == 0, bias=layout == 1))
    other = OPS[name](direction=direction, layout=1 - layout)  # type: ignore[operator]
    check(other, arguments(other, 2, 3, 4, 9), access=("storage",))


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("name", OPS)
def test_many_units_and_lanes_that_share_sums(name: str, kind: str) -> None:
    op = OPS[name]()  # type: ignore[operator]
    check(op, arguments(op, 2, 2, 7, 71, states=True), access=("storage",), kind=kind)


@pytest.mark.parametrize("name", OPS)
def test_loops_in_several_dispatches(name: str) -> None:
    op = OPS[name](direction="bidirectional")  # type: ignore[operator]
    given = arguments(op, 7, 1, 3, 5, states=True)
    check(op, given, access=("storage",), max_loop_rounds=60)


@pytest.mark.parametrize("steps, inputs", [(1, 1), (1, 7), (1, 8), (13, 8), (6, 1)])
def test_products_of_all_kinds(steps: int, inputs: int) -> None:
    op = RNN(layout=1)
    check(op, arguments(op, steps, 1, inputs, 3))


LSTMS = {
    "peepholes": LSTM(),
    "coupled": LSTM(input_forget=True),
    "clipped": LSTM(clip=0.7, cell_clip=0.3),
    "projected": LSTM(direction="bidirectional"),
    "projection clipped": LSTM(projection_clip=0.2, layout=1),
    "output of the candidate": LSTM(output_of="candidate"),
}


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("name", LSTMS)
def test_lstm(name: str, kind: str) -> None:
    op = LSTMS[name]
    outputs = 11 if "project" in name else 0
    given = arguments(
        op, 3, 2, 4, 6, outputs=outputs, states=True, peepholes=name in ("peepholes", "coupled")
    )
    check(op, given, access=("storage",), kind=kind)


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("name", LSTMS)
def test_normalized_lstm(name: str, kind: str) -> None:
    op = LSTMS[name]
    outputs = 3 if "project" in name else 0
    given = arguments(
        op,
        3,
        2,
        4,
        6,
        outputs=outputs,
        states=True,
        bias=name != "clipped",
        peepholes=name in ("peepholes", "coupled", "projection clipped"),
        norm=True,
    )
    check(op, given, access=("storage",), kind=kind)


@pytest.mark.parametrize("rounding", ["symmetric", "asymmetric"])
def test_rounded_states_and_projections(rounding: str) -> None:
    op = LSTM(state_rounding=rounding, projection_rounding=rounding, direction="bidirectional")
    given = arguments(op, 3, 2, 5, 6, states=True, outputs=7, norm=True)
    check(op, given, access=("storage",))
    check(op, given, access=("storage",), kind="discrete")
    unlike = LSTM(projection_rounding=rounding, activations=("Sigmoid", "Relu", "Affine"))
    check(unlike, arguments(unlike, 2, 1, 3, 5, states=True, outputs=4), access=("storage",))


def test_wide_projections_and_one_state_alone() -> None:
    op = LSTM()
    given = arguments(op, 2, 1, 3, 21, outputs=5, states=True)
    given[4] = None
    check(op, [*given[:8], None], access=("storage",))
    given = arguments(op, 2, 1, 3, 5, states=True)
    given[5] = None
    check(op, given[:5], access=("storage",))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    op = LSTM(activations=(name, name, name))
    given = arguments(op, 2, 1, 3, 5)
    assert given[0] is not None
    given[0] *= 2
    check(op, given, access=("storage",))


def test_activations_with_numbers_of_their_own() -> None:
    op = GRU(
        activations=("HardSigmoid", "ScaledTanh"),
        activation_alpha=(0.3, 1.7),
        activation_beta=(0.4, 0.6),
        clip=1.5,
    )
    check(op, arguments(op, 3, 1, 3, 5), access=("storage",))


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("name", OPS)
def test_rounded_states(name: str, kind: str) -> None:
    op = OPS[name](state_rounding="symmetric", direction="bidirectional")  # type: ignore[operator]
    given = arguments(op, 3, 2, 5, 6, states=True, outputs=7 if name == "lstm" else 0)
    assert given[0] is not None
    given[0][1] = 0  # nothing to scale by
    check(op, given, kind=kind, access=("storage",))


@pytest.mark.parametrize("name", OPS)
def test_fp16(name: str) -> None:
    op = OPS[name](
        direction="bidirectional", state_rounding="symmetric" if name == "rnn" else "none"
    )  # type: ignore[operator]
    given = arguments(op, 3, 2, 5, 6, states=True)
    access = ("storage", "texel", "image") if name == "lstm" else ("storage",)
    tolerance = 2 / 127 if name == "rnn" else 1e-3  # a value near two levels may take either
    check(op, given, precision="fp16", tolerance=tolerance, access=access)


def test_large_states_go_by_steps() -> None:
    limits = shared_device().limits
    units = limits.shared_memory // 16
    op = RNN()
    graph = single_op_graph(op, arguments(op, 2, 1, 1, units)[:3], (1, 2))
    assert [c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())] == ["steps"]


def test_weights_that_are_no_constants_stay_on_the_host() -> None:
    op = RNN()
    check_op(op, *arguments(op, 2, 1, 3, 5), host=True)


@pytest.mark.parametrize("inputs", [3, 4, 5])
def test_an_infinite_weight_of_the_last_input(inputs: int) -> None:
    """Bounded it is a number: padding behind the inputs must not make NaN of it."""
    rng = np.random.default_rng(3)
    x, w, r = (
        rng.uniform(0.1, 1, shape).astype(np.float32)
        for shape in ((1, 1, inputs), (1, 20, inputs), (1, 20, 5))
    )
    w[0, 2, -1] = np.inf
    op = LSTM(clip=50.0)
    assert np.isfinite(op.reference(x, w, r)[0]).all()
    check_op(op, x, w, r, constants=(1, 2))
