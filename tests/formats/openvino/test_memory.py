"""State between runs, and shapes that are computed at run time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.openvino_writer import Net

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats import load
from vknn.session import Session

BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]


def device(backend: str):  # type: ignore[no-untyped-def]
    return "numpy" if backend == "numpy" else shared_device()


def memories(order: str, writes: bool = True, precision: str = "FP32") -> Net:
    """y = [x, what x was in the run before]; ``order``: of read, write and use in the file."""
    net = Net(precision=precision)
    x = net.input("x", (1, 2))
    for letter in order:
        if letter == "r":
            read = net.layer(
                "Memory", [], [(1, 2)], {"id": "m", "index": 1, "size": 2}, name="state:m"
            )[0]
        elif letter == "w" and writes:
            net.layer("memory", [x], [], {"id": "m", "index": 0, "size": 2}, name="write")
    net.layer("Concat", [x, read], [(1, 4)], {"axis": 1}, name="y")
    return net


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ["rw", "wr"])
@pytest.mark.parametrize("precision", ["FP32", "FP16", "I32"])
def test_reads_give_what_the_run_before_wrote(
    order: str, precision: str, backend: str, tmp_path: Path
) -> None:
    path = memories(order, precision=precision).save(tmp_path)
    with Session(path, device=device(backend)) as session:
        assert [s.name for s in session.inputs] == ["x"]
        assert [s.name for s in session.outputs] == ["y"]
        before = np.zeros((1, 2))
        for run in range(4):
            if run == 3:
                session.reset_state()
                before = np.zeros((1, 2))
            x = np.array([[run + 1, -run]])
            found = session.run({"x": x})
            assert list(found) == ["y"]
            assert np.array_equal(found["y"], np.concatenate([x, before], axis=1))
            before = x
    with Session(path, device=device(backend)) as other:
        assert not other.run({"x": np.ones((1, 2))})["y"][0, 2:].any()


def test_reads_that_nobody_writes_give_zeros(tmp_path: Path) -> None:
    with Session(memories("r", writes=False).save(tmp_path), device="numpy") as session:
        for _ in range(2):
            assert np.array_equal(session.run({"x": np.ones((1, 2))})["y"], [[1, 1, 0, 0]])


def test_states_that_only_pass_through(tmp_path: Path) -> None:
    """A net whose read feeds its write, and one that only writes."""
    net = Net()
    x = net.input("x", (2,))
    read = net.layer("Memory", [], [(2,)], {"id": "a", "index": 1})[0]
    net.layer("Memory", [read], [], {"id": "a", "index": 0})
    net.layer("Memory", [x], [], {"id": "b", "index": 0})
    net.layer("ReLU", [x], [(2,)], name="y")
    with Session(net.save(tmp_path), device="numpy") as session:
        assert list(session.run({"x": np.ones(2)})) == ["y"]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"index": 1}, "Memory has no id"),
        ({"id": "m", "index": 2}, "index is 2, not 0 or 1"),
        ({"id": "m", "index": 0}, "with index 0 has 0 inputs and 1 outputs"),
        ({"id": "m", "index": "first"}, "index is 'first'"),
    ],
)
def test_wrong_memories(attributes: dict[str, object], said: str, tmp_path: Path) -> None:
    net = Net()
    net.layer("Memory", [], [(2,)], attributes, name="r")
    with pytest.raises(ModelFormatError, match=rf"layer 'r': {said}"):
        load(net.save(tmp_path))


def test_memories_that_do_not_fit(tmp_path: Path) -> None:
    net = memories("rw")
    x = net.input("z", (1, 2))
    net.layer("Memory", [x], [], {"id": "m", "index": 0}, name="again")
    with pytest.raises(ModelFormatError, match="writes 'm', as layer 'write' does"):
        load(net.save(tmp_path))
    net = Net()
    net.layer("Memory", [net.input("x", (3,))], [], {"id": "m", "index": 0}, name="w")
    net.layer("Memory", [], [(2,)], {"id": "m", "index": 1}, name="r")
    with pytest.raises(ModelFormatError, match=r"reads \[2\] where layer 'w' writes \[3\]"):
        load(net.save(tmp_path))


def test_other_shapes_than_the_states(tmp_path: Path) -> None:
    with (
        Session(memories("rw").save(tmp_path), device="numpy") as session,
        pytest.raises(ShapeError, match="'write'|'y'"),
    ):
        session.run({"x": np.zeros((3, 2))})


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_computed_at_run_time(backend: str, tmp_path: Path) -> None:
    """With other input shapes than the file's a fed shape decides, and state survives that."""
    net = memories("rw")
    x = net.input("wide", (2, 3))
    shape = net.input("shape", (2,), "I32")
    both = net.layer("Concat", [shape], [(2,)], {"axis": 0}, precision="I32")[0]
    net.layer("Reshape", [x, both], [(3, 2)], name="z")
    with Session(net.save(tmp_path), device=device(backend)) as session:
        for run, (dims, wanted) in enumerate(
            (((4, 3), (2, 6)), ((4, 3), (3, 4)), ((2, 3), (3, 2)))
        ):
            wide = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
            feeds = {"x": np.full((1, 2), run + 1), "wide": wide, "shape": np.array(wanted)}
            found = session.run(feeds)
            assert np.array_equal(found["z"], wide.reshape(wanted))
            assert np.array_equal(found["y"], [[run + 1, run + 1, run, run]])
