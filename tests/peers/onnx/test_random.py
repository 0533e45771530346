"""Random numbers: what is the same in which runs, and how they are distributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, value
from tests.peers.onnx.one_node import run, session_of

from vknn.graph import DType
from vknn.session import Session

BFLOAT16, DOUBLE, HALF, INT64, BOOL = 16, 11, 10, 7, 9
X = np.zeros((30, 41), np.float32)


def drawn(folder: Path, backend: str, operator: str, inputs: list[Any], **more: Any) -> np.ndarray:
    found: np.ndarray = run(folder, backend, operator, inputs, domain="", version=22, **more)[0]
    return found


def made(folder: Path, backend: str, operator: str, **more: Any) -> np.ndarray:
    """The result of a node without inputs."""
    one = node(operator, "", "y", **more)
    path = save(model(graph([one], [], [value("y", None)])), folder)
    with Session(path, device="numpy" if backend == "numpy" else "auto") as session:
        found: np.ndarray = session.run({})["y"]
        return found


@pytest.mark.parametrize("dtype", [1, BFLOAT16, DOUBLE, HALF])
def test_distributions(dtype: int, tmp_path: Path, backend: str) -> None:
    kind = {1: np.float32, 16: ml_dtypes.bfloat16, 11: np.float64, 10: np.float16}[dtype]
    normal = made(
        tmp_path, backend, "RandomNormal", shape=[71, 53], dtype=dtype, mean=2.0, scale=3.0
    )
    assert normal.dtype == kind and normal.shape == (71, 53)
    numbers = normal.astype(float)
    assert abs(numbers.mean() - 2) < 0.25 and abs(numbers.std() - 3) < 0.2
    uniform = made(tmp_path, backend, "RandomUniform", shape=[71, 53], dtype=dtype, low=-1.0)
    numbers = uniform.astype(float)
    assert numbers.min() >= -1 and numbers.max() <= 1 and abs(numbers.mean()) < 0.06
    assert abs(numbers.std() - 2 / 12**0.5) < 0.03


def test_shapes_of_anything(tmp_path: Path, backend: str) -> None:
    words = np.full((3, 5), "a", object)
    found = drawn(tmp_path, backend, "RandomUniformLike", [words], dtype=1)
    assert found.shape == (3, 5) and found.dtype == np.float32
    assert drawn(tmp_path, backend, "RandomNormalLike", [X.astype(np.float16)]).dtype == np.float16


def test_truths_and_classes(tmp_path: Path, backend: str) -> None:
    chances = np.array([[0.0, 0.2, 1.0]] * 2000)
    found = drawn(tmp_path, backend, "Bernoulli", [chances], dtype=INT64)
    assert found.dtype == np.int64
    share = found.mean(0)
    assert share[0] == 0 and share[2] == 1 and abs(share[1] - 0.2) < 0.05
    assert drawn(tmp_path, backend, "Bernoulli", [X], dtype=BOOL).dtype == bool
    logs = np.log(np.array([[1, 3, 6], [6, 3, 1]], np.float32))
    found = drawn(tmp_path, backend, "Multinomial", [logs], sample_size=3000, dtype=INT64)
    assert found.shape == (2, 3000) and found.dtype == np.int64
    for row, wanted in zip(found, ([0.1, 0.3, 0.6], [0.6, 0.3, 0.1]), strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 3000, wanted, atol=0.05)


@pytest.mark.parametrize("seeded", [True, False])
def test_what_is_the_same(seeded: bool, tmp_path: Path, backend: str) -> None:
    """With a seed all sessions draw alike; two runs of a session never do."""
    more = {"seed": 3.5} if seeded else {}
    runs = []
    for _ in range(2):
        session, feeds = session_of(
            tmp_path, backend, "RandomUniformLike", [X], domain="", version=22, **more
        )
        with session:
            first, second = (session.run(feeds)["y0"] for _ in range(2))
            session.reset_state()
            again = session.run(feeds)["y0"]
        assert (first == again).all() and (first != second).any()
        runs.append(first)
    assert (runs[0] == runs[1]).all() == seeded


@pytest.mark.device
def test_backends_draw_alike(tmp_path: Path) -> None:
    for operator, more in (("RandomUniformLike", {}), ("RandomNormalLike", {"mean": 1.0})):
        a, b = (drawn(tmp_path, d, operator, [X], seed=9.0, **more) for d in ("numpy", "vulkan"))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    a, b = (drawn(tmp_path, d, "Bernoulli", [X + 0.5], seed=9.0) for d in ("numpy", "vulkan"))
    assert (a == b).all() and 0.4 < a.mean() < 0.6


def test_two_nodes_and_rounds_of_a_loop_draw_others(tmp_path: Path, backend: str) -> None:
    body = graph(
        [node("RandomUniformLike", "x", "a", seed=1.0), node("Identity", "c", "d")],
        [value("i", (), DType.INT64), value("c", (), DType.BOOL)],
        [value("d", (), DType.BOOL), value("a", None)],
    )
    nodes = [
        node("Loop", "n true", "all", body=body),
        node("RandomUniformLike", "x", "b", seed=1.0),
    ]
    tensors = {"n": np.array(3, np.int64), "true": np.array(True)}
    outputs = [value("all", None), value("b", None)]
    path = save(model(graph(nodes, [value("x", (5,))], outputs, tensors)), tmp_path)
    with Session(path, device="numpy" if backend == "numpy" else "auto") as session:
        found = session.run({"x": np.zeros(5, np.float32)})
    rows = [*found["all"], found["b"]]
    assert len({row.tobytes() for row in rows}) == 4


def test_dropout_in_training(tmp_path: Path, backend: str) -> None:
    x = np.full((50, 61), 2.0, np.float32)
    given = [x, np.float32(0.3), np.array(True)]
    found, kept = run(tmp_path, backend, "Dropout", given, domain="", outputs=2, version=22, seed=5)
    assert kept.dtype == bool and abs(kept.mean() - 0.7) < 0.05
    np.testing.assert_allclose(found, np.where(kept, 2 / 0.7, 0), rtol=1e-6)
    found, kept = run(
        tmp_path, backend, "Dropout", [x, np.float32(0.3), np.array(False)], domain="", outputs=2
    )
    assert (found == x).all() and kept.all()
