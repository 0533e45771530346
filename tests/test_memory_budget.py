"""Memory budgets: what would take too much is refused before anything is allocated for it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.small_model import SHAPE, write_small_model
from tests.test_program import PositiveRows, array
from tests.tflite_writer import Net

import vknn
from vknn import environment, host_memory
from vknn.compile import Target, compile_graph
from vknn.graph import DType, GraphBuilder, TensorType
from vknn.host_memory import free_host_memory
from vknn.lowering import lower
from vknn.memory_budget import MemoryBudget, peak
from vknn.ops.elementwise import Add, Relu
from vknn.ops.movement.shape import Expand, Reshape

BACKENDS = [pytest.param("auto", marks=pytest.mark.device), "numpy"]
#: An Interp to 12000 x 12000: 1.7 GB of results of a file of 100 bytes.
INTERP = """7767517
2 2
Input  data 0 1 data 0=2 1=2 2=3
Interp up   1 1 data up 0=1 3=12000 4=12000
"""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2000", 2000),
        (7, 7),
        ("3kB", 3000),
        ("1.5 GiB", 3 << 29),
        ("2G", 2 * 10**9),
        ("5Mib", 5 << 20),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert environment.nbytes(text, "limit") == size
    assert environment.read({"VKNN_MEMORY_LIMIT": str(text)}).memory_limit == size


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.2.3", "many", "2TB", "nan", "1e9", True, 0, 1 << 70]
)
def test_what_is_no_size(text: str | int) -> None:
    with pytest.raises(vknn.VknnError, match="limit=.*expected a number of bytes"):
        environment.nbytes(text, "limit")


@pytest.mark.parametrize("device", BACKENDS)
def test_a_session_keeps_to_its_limit(device: str, tmp_path: Path) -> None:
    path, x = write_small_model(tmp_path), {"data": array(*SHAPE)}
    with (
        vknn.Session(path, device=device, memory_limit=1000) as session,
        pytest.raises(vknn.OutOfMemoryError, match="limit of 1000; use smaller inputs, or"),
    ):
        session.run(x)
    with vknn.Session(path, device=device, memory_limit="2MB") as session:
        assert session.run(x)["out"].shape == (5,)


@pytest.mark.parametrize("device", BACKENDS)
def test_a_small_file_of_large_results(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.param"
    path.write_text(INTERP)
    path.with_suffix(".bin").write_bytes(b"")
    monkeypatch.setenv("VKNN_MEMORY_LIMIT", "500MB")
    tracemalloc.start()
    try:
        with (
            vknn.Session(path, device=device) as session,
            pytest.raises(vknn.OutOfMemoryError, match=r"layer 'up' \(Interp\): .*1728000000"),
        ):
            session.run({"data": array(3, 2, 2)})
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("device", BACKENDS)
def test_a_shape_among_the_inputs(device: str, tmp_path: Path) -> None:
    """TensorFlow Lite's SCATTER_ND: four bytes of input ask for eight gigabytes and more."""
    net = Net()
    indices = net.tensor("indices", (2, 1), "int32")
    updates = net.tensor("updates", (2,), "float32")
    shape = net.tensor("shape", (1,), "int32")
    y = net.tensor("y", (0,), "float32")
    net.add("SCATTER_ND", [indices, updates, shape], [y])
    net.inputs, net.outputs = [indices, updates, shape], [y]
    path = tmp_path / "net.tflite"
    path.write_bytes(net.file())
    feeds = {"indices": np.array([[1], [3]], np.int32), "updates": array(2)}
    with vknn.Session(path, device=device, memory_limit="1GB") as session:
        with pytest.raises(vknn.OutOfMemoryError, match="SCATTER_ND"):
            session.run({**feeds, "shape": np.array([2147483646], np.int32)})
        found = session.run({**feeds, "shape": np.array([5], np.int32)})["y"]
    assert np.array_equal(found[[1, 3]], feeds["updates"]) and found.shape == (5,)


def test_what_is_alive_at_once() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((5, 4)))
    a = g.add(Relu(), x)
    b = g.add(Reshape((4, 5)), a)
    c = g.add(Relu(), b)
    d = g.add(Relu(), c)
    graph = g.finish({"y": g.add(Add(), c, d)})
    most, node = peak(graph)
    assert most == 3 * 80 and node is graph.nodes[-1]
    assert peak(graph, 1)[0] == 3 * 80 + 80 + 2 * 80


@pytest.mark.parametrize(
    ("where", "limit"),
    [pytest.param("device", 30000, marks=pytest.mark.device), ("host", 60000)],
)
def test_shapes_that_a_run_decides(where: str, limit: int) -> None:
    """The rest behind a shape that depends on data is checked once the shape is known."""
    g = GraphBuilder()
    x = g.input("x", TensorType((6, 2)))
    rows = g.add(PositiveRows(), x)
    wide = g.add(Expand((1000, 1, 1)), rows)
    graph = g.finish({"y": g.add(Relu(), wide)})
    target = Target(shared_device() if where == "device" else None, memory_limit=limit)
    program = compile_graph(graph, target)
    few, many = -np.ones((6, 2), np.float32), np.ones((6, 2), np.float32)
    few[0] = 1
    assert program.run({"x": few})["y"].shape == (1000, 1, 2)
    with pytest.raises(vknn.OutOfMemoryError, match=f"limit of {limit}"):
        program.run({"x": many})
    assert program.run({"x": few})["y"].shape == (1000, 1, 2)
    program.close()


@pytest.mark.device
def test_buffers_of_a_plan() -> None:
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 64, 32, 32), DType.FLOAT32))
    graph = g.finish({"y": g.add(Relu(), x)})
    device = shared_device()
    plan = lower(graph, device.limits)
    needed = sum(plan.arenas.values())
    MemoryBudget(needed, device).check_plan(plan)
    words = rf"needs {needed} bytes of device memory \(262144 of them: \w+ '.+' of layer '.+'\), "
    with pytest.raises(vknn.OutOfMemoryError, match=words):
        MemoryBudget(needed - 1, device).check_plan(plan)


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"memory.max": "5000\n", "memory.current": "3000\n"}, 2000),
        ({"memory.max": "max\n", "memory.current": "3000\n"}, None),
        (
            {"memory/memory.limit_in_bytes": "700\n", "memory/memory.usage_in_bytes": "900\n"},
            0,
        ),
        ({}, None),
    ],
)
def test_limits_of_a_container(files: dict[str, str], left: int | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert host_memory._of_the_group(tmp_path) == left


def test_by_default_it_is_a_share_of_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = free_host_memory()
    assert free is not None and free > 1 << 20
    path, x = write_small_model(tmp_path), {"data": array(*SHAPE)}
    monkeypatch.setattr(host_memory, "free_host_memory", lambda: 4000)
    with vknn.Session(path, device="numpy") as session:
        with pytest.raises(vknn.OutOfMemoryError, match="limit of 3000"):
            session.run(x)
        monkeypatch.setattr(host_memory, "free_host_memory", lambda: None)
        session.run(x)
