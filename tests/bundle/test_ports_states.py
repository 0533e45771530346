"""State of bundles: pairs of buffers with first values, kept from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import coreml_writer
from tests.bundle.porting import Ported, port_session
from tests.formats.tflite.resource_nets import totals
from tests.helpers import shared_device, skip_without_half
from tests.tflite_writer import Net

import vknn
from vknn.bundle import schema
from vknn.bundle.schema import NONE
from vknn.bundle.tables import Tables
from vknn.errors import ExportError
from vknn.plan import Role
from vknn.session import engine_of

pytestmark = pytest.mark.device
RNG = np.random.default_rng(11)


def svdf(dtype: str = "float32") -> bytes:
    """A layer that keeps its last inputs: what it gives depends on runs before."""
    net = Net()
    x = net.tensor("x", (1, 3), dtype)
    first = net.tensor("first", data=RNG.standard_normal((4, 3)).astype("f4"))
    second = net.tensor("second", data=RNG.standard_normal((4, 5)).astype("f4"))
    held = net.tensor("held", (1, 20), is_variable=True)
    y = net.tensor("y", (1, 2), dtype)
    net.add("SVDF", [x, first, second, -1, held], [y], {"rank": 2})
    net.inputs, net.outputs = [x], [y]
    return net.file()


def runs(made: Ported, inputs: list[Any]) -> list[dict[str, np.ndarray]]:
    """Outputs of runs in a row, each with the states of the one before, as a runner copies them."""
    found, states = [], dict[str, np.ndarray]()
    for x in inputs:
        got = made.run({"x": x}, **states)
        states = {name: got[name] for name in made.model.state if name in got}
        found.append(got)
    return found


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_state_is_no_port_and_is_carried_on(precision: str) -> None:
    if precision == "fp16":
        skip_without_half()
    inputs = [RNG.standard_normal((1, 3)).astype("f4") for _ in range(3)]
    with vknn.Session(svdf(), device=shared_device(), precision=precision) as session:
        made = port_session(session, {"x": inputs[0]})
        wanted = [session.run({"x": x})["y"] for x in inputs]
    got = [g["y"] for g in runs(made, inputs)]
    assert np.array_equal(got, wanted)
    assert not np.array_equal(got[0], made.run({"x": inputs[1]})["y"])
    assert [p.name for p in made.result.ports] == ["x", "y"]
    (state,) = made.result.states
    buffers = made.result.plan.buffers
    assert buffers[state.input].role is Role.INPUT
    assert buffers[state.output].role is Role.OUTPUT
    assert state.nbytes == 20 * (4 if precision == "fp32" else 2)
    assert min(buffers[i].nbytes for i in (state.input, state.output)) >= state.nbytes


def test_first_values_are_those_of_the_model() -> None:
    """A random layer counts its draws from a number that the file does not say."""
    layer = coreml_writer.layer("randomUniformLike", maxVal=1.0, seed=-1)
    with coreml_writer.session(coreml_writer.model([layer], {"x": (5,)}), shared_device()) as s:
        x = np.zeros(5, np.float32)
        made = port_session(s, {"x": x})
        wanted = [engine_of(s).run({"x": x})["y"] for _ in range(2)]
    got = [g["y"] for g in runs(made, [x, x])]
    assert np.array_equal(got, wanted)
    assert not np.array_equal(got[0], got[1])
    (state,) = made.result.states
    assert state.first is not None
    (number,) = made.model.first_state.values()
    assert state.first.tobytes() == np.int32(number).tobytes()
    assert "\0" not in state.name


def test_records_of_states() -> None:
    with vknn.Session(svdf(), device=shared_device()) as session:
        made = port_session(session, {"x": np.zeros((1, 3), "f4")})
    tables = Tables()
    (state,) = made.result.states
    tables.add(schema.STATE, [state.row(tables)])
    (row,) = np.array(tables.rows[schema.STATE], schema.STATE.dtype)
    assert (row["input"], row["output"], row["nbytes"]) == (state.input, state.output, 80)
    assert row["blob"] == NONE  # zeros


def test_variables_are_told_by_the_files_names(tmp_path: Path) -> None:
    """Not by those that a session keeps them by; nor is it one whether a CALL_ONCE has run.

    A network that is cut behind what a variable held is refused, too: its graph, that of a first
    run, has a constant there.
    """
    path = tmp_path / "net.tflite"
    path.write_bytes(totals().file())
    for outputs in (None, ["sum"]):
        with pytest.raises(ExportError) as caught:
            vknn.export(path, tmp_path / "net.vkb", outputs=outputs)
        assert caught.value.reasons == (
            "variable 'v' has no value before a run gives it one, and of any type: make it an "
            "input and an output of the model",
        )
