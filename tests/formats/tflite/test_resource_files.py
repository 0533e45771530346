"""Files whose variables, tables and calls cannot be: refused when they are opened."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets
from tests.formats.tflite.resource_nets import values
from tests.tflite_writer import Net

import vknn
from vknn.errors import InputError, ModelFormatError


def once_of(number: int, inputs: int = 0, ends: int = 0) -> Net:
    """A CALL_ONCE of a subgraph with ends, and ends of its own."""
    net = Net()
    net.outputs = [net.tensor("y", data=np.float32([1]))]
    init = net.another()
    if ends:
        init.inputs = init.outputs = [init.tensor("a", (1,))]
    net.add("CALL_ONCE", [0] * inputs, [], {"init_subgraph_index": number})
    return net


def nested(depth: int) -> Net:
    """Subgraphs of which each initializes the next."""
    net = once_of(1)
    for number in range(2, depth + 1):
        nets.once(net.others[-1], number)
        net.another()
    return net


def itself() -> Net:
    """A subgraph that initializes itself."""
    net = once_of(1)
    nets.once(net.others[0], 1)
    return net


def in_a_circle() -> Net:
    """Two subgraphs that initialize each other."""
    net = once_of(1)
    nets.once(net.others[0], 2)
    nets.once(net.another(), 1)
    return net


def adding_a_handle() -> Net:
    """y = a handle and itself."""
    net = Net()
    made = nets.handle(net)
    net.outputs = [net.tensor("y", ())]
    net.add("ADD", [made, made], net.outputs, {})
    return net


def reading_numbers() -> Net:
    """A variable whose handle is a number."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (), "int64")], [net.tensor("y", ())]
    net.add("READ_VARIABLE", [0], [1], {})
    return net


def giving_a_handle() -> Net:
    """The handle as the model's output."""
    net = Net()
    net.outputs = [nets.handle(net)]
    return net


def passing_a_number() -> Net:
    """A number in the place of a handle, in a call."""
    net = Net()
    inner = net.another()
    inner.inputs = [inner.tensor("which", (), "resource")]
    inner.outputs = [inner.tensor("y", (1,))]
    inner.add("READ_VARIABLE", [0], [1], {})
    net.inputs, net.outputs = [net.tensor("x", (), "int64")], [net.tensor("y", (1,))]
    net.add("CALL", [0], [1], {"subgraph": 1})
    return net


def a_handle_of_floats() -> Net:
    """A VAR_HANDLE that is declared to give floats."""
    net = Net()
    net.outputs = [net.tensor("y", ())]
    net.add("VAR_HANDLE", [], [0], {"shared_name": "v"})
    return net


def without_a_maker() -> Net:
    """A handle that nothing makes, with data and as a variable of its own."""
    net = Net()
    made = net.tensor("h", (0,), "resource", is_variable=True)
    net.outputs = [net.tensor("y", ())]
    net.add("READ_VARIABLE", [made], net.outputs, {})
    return net


def of_types(key: int, value: int) -> Net:
    """A table of types that no table has."""
    net = Net()
    net.outputs = [net.tensor("y", data=np.float32([1]))]
    nets.table(net, key, value)
    return net


def of_two_types() -> Net:
    """A table that is declared twice, differently."""
    net = of_types(nets.INT64, nets.STRING)
    nets.table(net, nets.STRING, nets.INT64)
    return net


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: once_of(7), r"operator 0 \(CALL_ONCE\) of subgraph 0: names subgraph 7 of 2"),
        (lambda: once_of(-1), "names subgraph -1 of 2"),
        (lambda: nested(51), "call one another more than 50 deep"),
        (itself, "subgraphs 0, 1 call one another in a circle"),
        (lambda: once_of(1, ends=1), "subgraph 1 has 1 inputs and 1 outputs, not 0 and 0"),
        (lambda: once_of(1, inputs=1), "has 1 inputs and 0 outputs; it takes and gives nothing"),
        (lambda: once_of(1, inputs=1, ends=1), "it takes and gives nothing"),
        (in_a_circle, "subgraphs 0, 1, 2 call one another in a circle"),
        (adding_a_handle, r"operator 1 \(ADD\).*is a resource, not numbers: READ_VARIABLE"),
        (reading_numbers, r"\(READ_VARIABLE\).*'x'.*is int64: it has to be the handle that a VAR"),
        (giving_a_handle, "which cannot be an input or output of the model"),
        (passing_a_number, r"\(CALL\).*'which'.*is resource, and int64 stands for it"),
        (a_handle_of_floats, r"\(VAR_HANDLE\).*'y'.*declared as float32, not resource"),
        (lambda: of_types(4, 4), r"\(HASHTABLE\).*types 4 -> 4.*5 -> 4 \(string -> int64\)"),
        (lambda: of_types(5, 7), "types 5 -> 7"),
        (of_two_types, "table 3 has other types elsewhere"),
    ],
)
def test_files_that_cannot_be(make: Callable[[], Net], words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(make().file())
    begin = time.process_time()
    with pytest.raises(ModelFormatError, match=words) as caught:
        vknn.Session(path, device="numpy")
    assert str(path) in str(caught.value)
    assert time.process_time() - begin < 2


def test_nested_initializations_run() -> None:
    with vknn.Session(nested(50).file(), device="numpy") as session:
        assert session.run({})["y"].tolist() == [1]


def test_a_handle_without_a_maker_has_no_value() -> None:
    with (
        vknn.Session(without_a_maker().file(), device="numpy") as session,
        pytest.raises(ModelFormatError, match="'h'.* has no value: nothing makes it"),
    ):
        session.run({})


def test_names_of_state_are_no_names_of_inputs() -> None:
    net = Net()
    x = net.tensor("variable:v", (2,))
    nets.assign(net, "v", x)
    net.inputs, net.outputs = [x], [nets.read(net, "v", (2,))]
    with vknn.Session(net.file(), device="numpy") as session:
        for number in range(3):
            assert values(session, [number, 1]) == [[number, 1]]
        with pytest.raises(InputError, match=r"unknown input 'variable:v\.1'"):
            session.run({"variable:v.1": np.float32([1, 2])})
