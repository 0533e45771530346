"""Runs that name what they want: some outputs, and blobs in the middle of the network."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.test_enums import deciding
from tests.formats.tflite.test_recurrent import X, rnn
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net

import vknn

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("device", BACKENDS)
def test_blobs_and_outputs(device: str, tmp_path: Path) -> None:
    x = {"data": numbers(*SHAPE)}
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        whole = session.run(x)["out"]
        found = session.run(x, ["pool", "out", "conv1", "data"])
        assert list(found) == ["pool", "out", "conv1", "data"]
        assert np.allclose(found["out"], whole, atol=1e-6)
        assert found["conv1"].shape == (6, 8, 8) and found["conv1"].dtype == np.float32
        assert np.allclose(found["pool"], session.run(x, "sum")["sum"].mean((1, 2)), atol=1e-5)
        assert np.array_equal(found["data"], x["data"])
        assert list(session.run(x, outputs=("out",))) == ["out"]
        assert session.run(x, []) == {}
        assert np.array_equal(session.run(x)["out"], whole)  # its own program is still there
        y = session.run({"data": 2 * x["data"]}, ["conv1"])["conv1"]
        assert not np.allclose(y, found["conv1"])


@pytest.mark.parametrize("device", BACKENDS)
def test_blobs_of_both_backends_agree(device: str, tmp_path: Path) -> None:
    path, x = write_small_model(tmp_path), {"data": numbers(*SHAPE)}
    names = ["conv1", "left", "right", "dw", "sum", "pool", "fc", "prob"]
    with vknn.Session(path, device="numpy") as host, vknn.Session(path, device=device) as other:
        expected, found = host.run(x, names), other.run(x, names)
    for name in names:
        assert np.allclose(found[name], expected[name], rtol=1e-4, atol=1e-5), name


def test_unknown_names(tmp_path: Path) -> None:
    x = {"data": numbers(*SHAPE)}
    with vknn.Session(write_small_model(tmp_path), device="numpy") as session:
        with pytest.raises(vknn.InputError, match="no blob 'conv2'; like it are 'conv1'"):
            session.run(x, ["out", "conv2"])
        with pytest.raises(vknn.InputError, match="no blob 'zzz'$"):
            session.run(x, ["zzz"])
        assert session.run(x)["out"].shape == (5,)


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("given", [3, [3], [None], b"out", ["out", 3.5]])
def test_what_is_no_name(device: str, given: Any, tmp_path: Path) -> None:
    x = {"data": numbers(*SHAPE)}
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        with pytest.raises(vknn.InputError, match="outputs are asked for by name, not by "):
            session.run(x, given)
        with pytest.raises(vknn.InputError, match="outputs are asked for by name, not by "):
            session.run(x, on_device=given)


@pytest.mark.parametrize("device", BACKENDS)
def test_results_share_no_memory(device: str, tmp_path: Path) -> None:
    x = {"data": numbers(*SHAPE)}
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        found = session.run(x, ["data", "left", "right", "conv1", "prob", "out"])
        arrays = [x["data"], *found.values()]
    for a, b in itertools.combinations(arrays, 2):
        assert not np.shares_memory(a, b)


@pytest.mark.parametrize("device", BACKENDS)
def test_constants_stay_what_they_are(device: str, tmp_path: Path) -> None:
    """Whoever writes to a result changes neither the model nor what a stream gives next."""
    net = Net()
    x, c = net.tensor("x", (2,)), net.tensor("c", data=[1.0, -2.0])
    made = [net.tensor(name, (2,)) for name in ("folded", "y")]
    net.add("ABS", [c], [made[0]])
    net.add("NEG", [x], [made[1]])
    net.inputs, net.outputs = [x], [c, *made]
    path = tmp_path / "net.tflite"
    path.write_bytes(net.file())
    feeds = {"x": np.float32([5, 6])}
    with vknn.Session(path, device=device) as session:
        for results in (session.run(feeds), *session.stream([feeds] * 3), session.run(feeds)):
            assert {k: v.tolist() for k, v in results.items()} == {
                "c": [1, -2], "folded": [1, 2], "y": [-5, -6],
            }  # fmt: skip
            for array in results.values():
                array += 100


@pytest.mark.parametrize("device", BACKENDS)
def test_tensors_of_tflite(device: str, tmp_path: Path) -> None:
    net = Net()
    x, middle, y = (net.tensor(name, (2, 3)) for name in ("x", "middle", "y"))
    net.add("NEG", [x], [middle])
    net.add("ABS", [middle], [y])
    net.inputs, net.outputs = [x], [y]
    path = tmp_path / "net.tflite"
    path.write_bytes(net.file())
    feeds = {"x": numbers(2, 3)}
    with vknn.Session(path, device=device) as session:
        found = session.run(feeds, ["middle", "y"])
    assert np.array_equal(found["middle"], -feeds["x"])
    assert np.array_equal(found["y"], np.abs(feeds["x"]))


@pytest.mark.parametrize("device", BACKENDS)
def test_state_goes_on(device: str, tmp_path: Path) -> None:
    path = tmp_path / "rnn.tflite"
    path.write_bytes(rnn(6).file())
    with vknn.Session(path, device=device) as session:
        first, second = (session.run({"x": X})["y"] for _ in range(2))
        session.reset_state()
        assert np.allclose(session.run({"x": X}, ["x", "y"])["y"], first, atol=1e-6)
        assert list(session.run({"x": X}, ["x"])) == ["x"]
        session.reset_state()
        session.run({"x": X}, ["x"])
        assert np.allclose(session.run({"x": X})["y"], second, atol=1e-6)


def test_where_data_decide(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    feeds = {"c": np.array([False]), "x": np.float32([1, 2])}
    with vknn.Session(path, device="numpy") as session:
        assert list(session.run(feeds, ["y"])) == ["y"]
        with pytest.raises(vknn.InputError, match="'somewhere': of models whose data decide"):
            session.run(feeds, ["somewhere"])
