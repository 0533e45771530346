"""Variables and hash tables of a session: what keeps, shares, changes and loses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets
from tests.formats.tflite.resource_nets import values
from tests.helpers import shared_device, skip_without_half
from tests.tflite_writer import Net

import vknn
from vknn.errors import ShapeError, VknnError
from vknn.runtime import DeviceArray
from vknn.session import engine_of

Open = Callable[[Net | bytes], vknn.Session]


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens sessions of models on both backends; they are closed at the end."""
    sessions: list[vknn.Session] = []

    def made(net: Net | bytes, **options: Any) -> vknn.Session:
        device = "numpy" if request.param == "numpy" else shared_device()
        data = net.file() if isinstance(net, Net) else net
        sessions.append(vknn.Session(data, device=device, **options))
        return sessions[-1]

    yield made
    for session in sessions:
        session.close()


def test_call_once_runs_once_a_session_and_again_after_a_reset(opened: Open) -> None:
    session = opened(nets.totals())
    assert values(session, [1, 2]) == [[10, 20], [11, 22]]
    assert values(session, [1, 2]) == [[11, 22], [12, 24]]
    session.reset_state()
    assert values(session, [0, 1]) == [[10, 20], [10, 21]]
    assert values(opened(nets.totals()), [5, 5]) == [[10, 20], [15, 25]]


def test_two_handles_of_one_name_are_one_variable_and_containers_count(opened: Open) -> None:
    net = Net()
    x = net.tensor("x", (2,))
    net.inputs = [x]
    # What lies under other names must not be what these handles see: "c/v" is not "v" in "c".
    twice = net.tensor("twice", (2,))
    net.add("ADD", [x, x], [twice], {})
    made = []
    for name, container, value in (("v", "", x), ("v", "c", twice)):
        net.add("ASSIGN_VARIABLE", [nets.handle(net, name, container), value], [], {})
        made.append((name, container))
    net.add("ASSIGN_VARIABLE", [nets.handle(net, "c/v"), x], [], {})
    for name, container in made:
        net.outputs = [*net.outputs, net.tensor(f"{container}:{name}", (2,))]
        ends = [nets.handle(net, name, container)], [net.outputs[-1]]
        net.add("READ_VARIABLE", *ends, {})
    assert values(opened(net), [1, 2]) == [[1, 2], [2, 4]]


def test_reads_and_writes_keep_the_order_of_the_file(opened: Open) -> None:
    net = Net()
    x, twice = net.tensor("x", (2,)), net.tensor("twice", (2,))
    net.inputs = [x]
    net.add("ADD", [x, x], [twice], {})
    nets.assign(net, "v", twice)
    before = nets.read(net, "v", (2,))
    nets.assign(net, "v", x)
    net.outputs = [before, nets.read(net, "v", (2,))]
    assert values(opened(net), [1, 2]) == [[2, 4], [1, 2]]


def test_a_variable_grows_from_run_to_run(opened: Open) -> None:
    session = opened(nets.growing())
    seen: list[list[float]] = []
    for number in range(12):  # more than programs are kept
        rows = [[number, k] for k in range(1 + number % 3)]
        seen += rows
        assert session.run({"x": np.float32(rows)})["all"].tolist() == seen
    session.reset_state()
    assert session.run({"x": np.float32([[1, 2]])})["all"].tolist() == [[1, 2]]


def test_an_error_leaves_variables_as_they_were(opened: Open) -> None:
    net = nets.totals()
    at, found = net.tensor("at", (1,), "int32"), net.tensor("found", (1,))
    net.inputs, net.outputs = [*net.inputs, at], [*net.outputs, found]
    net.add("GATHER", [net.inputs[0], at], [found], {"axis": 0})  # behind the assignment
    session = opened(net)
    x = np.float32([1, 2])
    with pytest.raises(VknnError, match="index"):
        session.run({"x": x, "at": np.int32([9])})
    for total in ([11, 22], [12, 24]):
        assert session.run({"x": x, "at": np.int32([0])})["sum"].tolist() == total
        with pytest.raises(VknnError, match="index"):
            session.run({"x": x, "at": np.int32([-9])})


@pytest.mark.parametrize("known", [False, True], ids=["at run time", "before"])
def test_a_branch_writes_and_what_follows_reads(known: bool, opened: Open) -> None:
    net = Net()
    then, other = net.another(), net.another()
    for branch in (then, other):
        branch.inputs = [branch.tensor("x", (2,))]
        branch.outputs = branch.inputs
    nets.assign(then, "v", 0)
    x = net.tensor("x", (2,))
    nets.assign(net, "v", net.tensor("ten", data=np.float32([10, 10])))
    data = np.array([True]) if known else None
    condition = net.tensor("is", (1,), "bool", data=data)
    same = net.tensor("same", (2,))
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    net.add("IF", [condition, x], [same], options)
    net.inputs = [x] if known else [x, condition]
    net.outputs = [nets.read(net, "v", (2,))]
    session = opened(net)
    for takes in (True,) if known else (True, False, True):
        feeds = {"x": np.float32([1, 2])} | ({} if known else {"is": np.array([takes])})
        (found,) = session.run(feeds).values()
        assert found.tolist() == ([1, 2] if takes else [10, 10])


def test_handles_are_passed_to_loops_and_calls(opened: Open) -> None:
    """A handle of another variable than the body's own name for nothing: it is a number."""
    net = Net()
    condition, body, inner = net.another(), net.another(), net.another()
    for each in (condition, body):
        each.inputs = [each.tensor("n", (1,), "int32"), each.tensor("which", (), "resource")]
    condition.outputs = [condition.tensor("more", (1,), "bool")]
    none = condition.tensor("none", (1,), "int32", data=np.int32([0]))
    condition.add("GREATER", [0, none], condition.outputs, {})
    one = body.tensor("one", (1,), "int32", data=np.int32([1]))
    fewer = body.tensor("fewer", (1,), "int32")
    body.add("SUB", [0, one], [fewer], {})
    body.add("CALL", [1], [], {"subgraph": 3})
    body.outputs = [fewer, 1]
    inner.inputs = [inner.tensor("which", (), "resource")]
    old, twice = inner.tensor("old", (2,)), inner.tensor("twice", (2,))
    inner.add("READ_VARIABLE", [0], [old], {})
    inner.add("ADD", [old, old], [twice], {})
    inner.add("ASSIGN_VARIABLE", [0, twice], [], {})
    x, n = net.tensor("x", (2,)), net.tensor("n", (1,), "int32")
    net.inputs = [x, n]
    nets.assign(net, "other", x)
    nets.assign(net, "v", x)
    ends = [net.tensor("left", (1,), "int32"), net.tensor("still", (), "resource")]
    loop = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    net.add("WHILE", [n, nets.handle(net, "v")], ends, loop)
    y = net.tensor("y", (2,))
    net.add("READ_VARIABLE", [ends[1]], [y], {})
    net.outputs = [y, nets.read(net, "other", (2,))]
    found = opened(net).run({"x": np.float32([1, 2]), "n": np.int32([3])})
    assert [y.tolist() for y in found.values()] == [[8, 16], [1, 2]]


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_variables_stay_on_the_device(precision: str) -> None:
    if precision == "fp16":
        skip_without_half()
    with vknn.Session(nets.totals().file(), device=shared_device(), precision=precision) as session:
        for number in range(3):
            assert values(session, [1, 2])[0] == [10 + number, 20 + 2 * number]
            state = engine_of(session)._state.present(session.model)
            assert set(state) == {"variable:v", "once:1"}
            assert isinstance(state["variable:v"], DeviceArray)


def test_tables_are_imported_at_run_time_too(opened: Open) -> None:
    net = Net()
    keys, found = net.tensor("keys", (3,), "int64"), net.tensor("found", (3,), "string")
    texts, size = net.tensor("texts", (3,), "string"), net.tensor("size", (1,), "int64")
    made = nets.table(net, nets.INT64, nets.STRING)
    none = nets._column(net, "default", ["none"], nets.STRING)
    net.inputs, net.outputs = [keys, texts], [found, size]
    net.add("HASHTABLE_IMPORT", [made, keys, texts], [], {})
    net.add("HASHTABLE_FIND", [made, keys, none], [found], {})
    net.add("HASHTABLE_SIZE", [made], [size], {})
    session = opened(net)
    text = np.array([b"b", b"a", b"c"], object)
    first = session.run({"keys": np.int64([5, -1, 5]), "texts": text})
    assert (first["found"].tolist(), first["size"].tolist()) == ([b"b", b"a", b"b"], [2])
    second = session.run({"keys": np.int64([-1, 7, 5]), "texts": text})
    assert (second["found"].tolist(), second["size"].tolist()) == ([b"a", b"none", b"b"], [2])


@pytest.mark.device
def test_verify_and_profile_look_at_models_with_variables() -> None:
    with vknn.Session(nets.totals().file(), device=shared_device()) as session:
        report = vknn.verify(session)
        assert report.ok
        assert report.checked
        before = np.float32(values(session, [0, 0])[0])
        assert before.tolist() != [10, 20]  # the check's plain run was one of the session
        # One run fills what is empty; those that are timed leave no trace.
        profile = vknn.profile(session, {"x": np.float32([1, 1])}, runs=3, warmup=1)
        assert profile.timings
        assert values(session, [0, 0])[0] == (before + 1).tolist()


def reading_nothing() -> Net:
    """y = a variable that nothing assigns."""
    net = Net()
    net.outputs = [nets.read(net, "kv", (2,))]
    return net


def of_another_type() -> Net:
    """y = a variable of integers, as floats."""
    net = Net()
    nets.assign(net, "v", net.tensor("x", dtype="int32", data=np.int32([1])))
    net.outputs = [nets.read(net, "v", (1,))]
    return net


def of_a_table() -> Net:
    """y = what a table "holds" as a variable."""
    net = Net()
    y = net.tensor("y", (1,))
    net.add("READ_VARIABLE", [nets.table(net, nets.INT64, nets.STRING)], [y], {})
    net.outputs = [y]
    return net


def of_an_empty_table() -> Net:
    """found = what a table has that nothing filled."""
    return nets.looked_up([], nets.STRING)


def of_different_lengths() -> Net:
    """A table of three keys and two values."""
    return nets.looked_up([(["a", "b", "c"], [1, 2])], nets.STRING)


def filled_the_other_way() -> Net:
    """A table of integers that is filled with integers by texts."""
    net = Net()
    ends = [nets.table(net, nets.INT64, nets.STRING)]
    ends += [nets._column(net, "k", ["a"], nets.STRING), nets._column(net, "v", [1], nets.INT64)]
    net.add("HASHTABLE_IMPORT", ends, [], {})
    net.outputs = [ends[2]]
    return net


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (reading_nothing, r"operator 1 \(READ_VARIABLE\).*'kv' has no value yet.*run first"),
        (of_another_type, r"\(READ_VARIABLE\).*variable 'v' holds int32, it gives float32"),
        (of_a_table, r"\(READ_VARIABLE\).*handle of table 3; it takes that of a variable"),
        (of_an_empty_table, r"\(HASHTABLE_FIND\).*table 3 was not filled yet.*run first"),
        (of_different_lengths, r"\(HASHTABLE_IMPORT\).*string\[3\] keys and int64\[2\] values"),
        (filled_the_other_way, r"table 3, int64 -> string, with string -> int64"),
    ],
)
def test_what_goes_wrong_in_a_run_is_said(net: Callable[[], Net], words: str, opened: Open) -> None:
    session = opened(net())
    feeds = {s.name: np.array([b"a"] * 4, object) for s in session.inputs}
    with pytest.raises(ShapeError, match=words) as caught:
        session.run(feeds)
    assert str(caught.value).startswith("a model in memory: ")
