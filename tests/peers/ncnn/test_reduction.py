"""Reductions, running sums and GLU against ncnn: many layers on one input at a time."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, device, image, whole_net

from vknn import Session
from vknn.errors import ModelFormatError, VknnError

SHAPES = [(17,), (9, 12), (13, 5, 3), (12, 2, 3, 8)]
OPERATIONS = range(11)


def side_by_side(lines: list[str], x: np.ndarray, backend: str) -> None:
    """Compares each of the layers on the same input."""
    copies = " ".join(f"x{i}" for i in range(len(lines)))
    layers = ["Input in 0 1 x", f"Split split 1 {len(lines)} x {copies}"]
    for i, line in enumerate(lines):
        kind, *params = line.split()
        layers.append(f"{kind} layer{i} 1 1 x{i} y{i} {' '.join(params)}")
    compare_with_ncnn(whole_net(*layers), None, {"x": x}, (backend,))


def subsets(rank: int) -> list[tuple[int, ...]]:
    return [s for n in range(rank + 1) for s in itertools.combinations(range(rank), n)]


def listed(axes: tuple[int, ...]) -> str:
    return "-23303=" + ",".join(map(str, (len(axes), *axes)))


def for_operation(operation: int, shape: tuple[int, ...]) -> np.ndarray:
    x = image(*shape, seed=operation)
    if operation == 6:  # a product of all stays far from where float32 loses digits
        return np.asarray(np.sign(x) * np.exp(0.05 * x), np.float32)
    return np.abs(x) + 0.01 if operation == 9 else x


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reduction(operation: int, shape: tuple[int, ...], backend: str) -> None:
    lines = [f"Reduction 0={operation} 2={k} 4={keep}" for k in (1.0, -2.0) for keep in (0, 1)]
    for axes in subsets(len(shape)):
        keep = len(axes) % 2
        lines.append(f"Reduction 0={operation} 1=0 2=1.5 {listed(axes)} 4={keep} 5=1")
        ends = tuple(a - len(shape) for a in axes)
        lines.append(f"Reduction 0={operation} 1=0 {listed(ends)} 4={1 - keep} 5=1")
    side_by_side(lines, for_operation(operation, shape), backend)


def test_reduction_of_much(backend: str) -> None:
    lines = [f"Reduction 0={operation}" for operation in (0, 2, 3, 4, 5, 8, 10)]
    lines += [f"Reduction 0={operation} 1=0 -23303=2,1,2 5=1" for operation in (1, 3, 4)]
    side_by_side(lines, image(5, 83, 71), backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cumulative_sum(shape: tuple[int, ...], backend: str) -> None:
    axes = range(-len(shape), len(shape)) if len(shape) > 1 else (0, -1, -2, 5)
    side_by_side([f"CumulativeSum 0={axis}" for axis in axes], image(*shape), backend)


@pytest.mark.parametrize("shape", [(103, 7), (7, 1030), (3, 200, 33)], ids=str)
def test_long_running_sums(shape: tuple[int, ...], backend: str) -> None:
    side_by_side([f"CumulativeSum 0={a}" for a in range(len(shape))], image(*shape), backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_glu(shape: tuple[int, ...], backend: str) -> None:
    axes = range(-len(shape), len(shape)) if len(shape) > 1 else (0, -1, 3)
    side_by_side([f"GLU 0={axis}" for axis in axes], image(*shape), backend)


@pytest.mark.parametrize("shape", [*SHAPES, (5, 83, 71)], ids=str)
def test_statistics_pooling(shape: tuple[int, ...], backend: str) -> None:
    side_by_side(["StatisticsPooling", "StatisticsPooling 0=1"], image(*shape), backend)


@pytest.mark.parametrize(
    "line, shape, message",
    [
        ("Reduction 0=11", (3, 5), "operation 11"),
        ("Reduction 0=0 1=0 -23303=1,0", (3, 5), "fixbug0"),
        ("Reduction 0=0 1=0 -23303=1,2 5=1", (3, 5), "axis 2"),
        ("CumulativeSum 0=2", (3, 5), "axis 2"),
        ("GLU 0=0", (1, 5), "halve"),
        ("GLU 0=-3", (4, 5), "axis -3"),
        ("ArgMax 1=0", (3, 5), "topk 0"),
        ("ArgMax 1=16", (3, 5), "topk 16"),
    ],
)
def test_what_makes_no_sense(
    line: str, shape: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    kind, *params = line.split()
    net = whole_net("Input in 0 1 x", f"{kind} layer 1 1 x y {' '.join(params)}")
    (tmp_path / "net.param").write_text(net)
    with pytest.raises(VknnError, match=message) as caught:
        Session(tmp_path / "net.param", device="numpy").run({"x": image(*shape)})
    assert kind in str(caught.value)
    assert isinstance(caught.value, ModelFormatError) or "layer" in str(caught.value)


@pytest.mark.parametrize("shape", [(17,), (3, 5), (4, 3, 5), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("k", [1, 4])
def test_arg_max(shape: tuple[int, ...], k: int, backend: str, tmp_path: Path) -> None:
    """The wheel lacks the layer: as its source has it, a sort of pairs of value and index."""
    net = whole_net("Input in 0 1 x", f"ArgMax layer 1 1 x y 0=0 1={k}")
    both = whole_net("Input in 0 1 x", f"ArgMax layer 1 1 x y 0=1 1={k}")
    x = np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32)
    pairs = sorted(((v, i) for i, v in enumerate(x.ravel().tolist())), reverse=True)[:k]
    values, indices = np.array(pairs, np.float32).T
    for text, rows in ((net, [indices]), (both, [values, indices])):
        (tmp_path / "net.param").write_text(text)
        where = "numpy" if backend == "numpy" else device()
        with Session(tmp_path / "net.param", device=where) as session:
            np.testing.assert_array_equal(session.run({"x": x})["y"], np.stack(rows))


@pytest.mark.parametrize("line", ["CumulativeSum 0=7", "Softmax 0=3 1=1", "GLU 0=-4"])
def test_a_vector_has_one_axis(line: str, backend: str) -> None:
    check(line, image(10), backend=backend)


LAYERS = """Reduction
Reduction 0=10 1=0 -23303=2,0,2 4=1 5=1
CumulativeSum 0=1
GLU
ArgMax 0=1 1=3
StatisticsPooling 0=1
GroupNorm 0=2 1=6 3=0
InstanceNorm 2=0
MVN 0=1 1=1
Normalize 3=6
RMSNorm 2=0
LRN
Softmax"""


@pytest.mark.device
def test_the_device_computes_all_of_it(tmp_path: Path) -> None:
    copies = [f"x{i}" for i in range(len(LAYERS.splitlines()))]
    layers = ["Input in 0 1 x", f"Split split 1 {len(copies)} x {' '.join(copies)}"]
    for copy, line in zip(copies, LAYERS.splitlines(), strict=True):
        kind, *params = line.split()
        layers.append(f"{kind} {kind}{copy} 1 1 {copy} y{copy} {' '.join(params)}")
    (tmp_path / "net.param").write_text(whole_net(*layers))
    (tmp_path / "net.bin").write_bytes(np.full(64, 0.5, np.float32).tobytes())
    with Session(tmp_path / "net.param", device=device()) as session:
        session.run({"x": image(6, 5, 4)})
        assert set(session.placement.values()) == {"vulkan"}
