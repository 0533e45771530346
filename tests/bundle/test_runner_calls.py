"""Calls of the runner beside a run: ports, borrowed memory, waiting, profiles, caches, states."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.networks import PATHS, Made, answers, check, small
from tests.bundle.test_ports_states import svdf

import vknn
from vknn.bundle.runner import Runner
from vknn.errors import DeviceTimeoutError, InputError

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


def test_ports_are_described(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        assert list(runner.inputs) == list(net.feeds)
        assert list(runner.outputs) == list(net.expected)
        assert "llvmpipe" in runner.device or runner.device
        assert runner.memory > 0


def test_borrowed_memory(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        view = runner.borrow("data")
        view[...] = net.feeds["data"].reshape(view.shape)
        found = runner.run({})
        for name, array in net.expected.items():
            np.testing.assert_array_equal(found[name].ravel(), array.ravel())


def test_inputs_and_outputs_one_by_one(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        [(name, data)], [(output, expected)] = net.feeds.items(), net.expected.items()
        assert not runner.get(output).any()
        runner.set(name, data)
        runner.submit()
        runner.wait()
        assert runner.shape(output) == expected.shape
        np.testing.assert_array_equal(runner.get(output), expected)
        for call in (runner.get, runner.shape):
            with pytest.raises(InputError, match="there is no output 'data'; there are out"):
                call(name)
        with pytest.raises(InputError, match="there is no input 'out'; there are data"):
            runner.set(output, data)


def test_devices_and_log(net: Made, library: Path) -> None:
    lines: list[str] = []
    with Runner(net.path, library=library, device="0", log=lines.append) as runner:
        assert Runner.devices(library).splitlines()[0].startswith(f"0  {runner.device}  ")
        assert lines[0].startswith(f"device: {runner.device}, ")
        assert any(line.startswith("plan: ") for line in lines)


def test_nets_beside_each_other(net: Made, library: Path) -> None:
    """They share a context, which stays until the last of them is closed, with its log."""
    lines: list[str] = []
    first = Runner(net.path, library=library, log=lines.append)
    with Runner(net.path.read_bytes(), beside=first) as second:
        assert lines[-1].startswith("memory: ")
        assert not lines[-1].endswith("and 0 of weights that other nets have")
        name = first.device
        first.close()
        with Runner(net.path, beside=second) as third:
            second.close()
            assert third.device == name
            assert len([line for line in lines if line.startswith("device: ")]) == 1
            assert len([line for line in lines if line.startswith("memory: ")]) == 3
            for output, array in third.run(net.feeds).items():
                np.testing.assert_array_equal(array, net.expected[output])
    with pytest.raises(vknn.VknnError, match="the runner was closed"):
        Runner(net.path, beside=second)
    with pytest.raises(vknn.ModelFormatError), Runner(net.path, library=library) as other:
        Runner(b"no bundle", beside=other)


def test_time_limit_then_wait(net: Made, library: Path) -> None:
    """A run that is over its time can be waited for again; inputs cannot be set meanwhile."""
    with Runner(net.path, library=library, time_limit=1e-9) as runner:
        view = runner.borrow("data")
        view[...] = net.feeds["data"].reshape(view.shape)
        runner.submit()
        try:
            runner.wait()
        except DeviceTimeoutError as error:
            assert "did not finish within 1e-09 s" in str(error)  # noqa: PT017
            with pytest.raises(InputError, match="a run is under way"):
                runner.run({"data": view.copy()})
        for _ in range(1000):
            try:
                runner.wait()
                break
            except DeviceTimeoutError:
                threading.Event().wait(0.01)
        else:
            raise AssertionError("the run never came to its end")
        found = {name: runner._get(port) for name, port in runner.outputs.items()}
        for name, array in net.expected.items():
            np.testing.assert_array_equal(found[name].ravel(), array.ravel())


def test_profile(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        answers(runner, net)
        profile = json.loads(runner.profile(3))
        after = answers(runner, net)
    np.testing.assert_array_equal(*(next(iter(d.values())) for d in (after, net.expected)))
    assert profile["runs"] == 3
    assert profile["steps"]
    for step in profile["steps"]:
        assert step["microseconds"] >= 0
        assert step["begin"] >= 0
        assert len(step["groups"]) == 3
    assert any("conv1" in step["label"] for step in profile["steps"])
    assert (
        profile["microseconds"] >= max(s["begin"] + s["microseconds"] for s in profile["steps"]) - 1
    )


def test_cache_is_kept_and_checked(net: Made, library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    check(net, library, cache=folder)
    [file] = folder.iterdir()
    good = file.read_bytes()
    assert good.startswith(b"VKNNRC1\0")
    for bad in (good[:-1], good + b"x", good[:60] + bytes([good[60] ^ 1]) + good[61:],
                good[:12] + b"\7" + good[13:], b""):  # fmt: skip
        file.write_bytes(bad)
        check(net, library, cache=folder)
        [file] = folder.iterdir()
        assert file.read_bytes()[:48] == good[:48] or len(file.read_bytes()) >= 48


def test_cache_that_cannot_be_written(net: Made, library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "a" / "b" / "c", Path("/dev/full")):
        check(net, library, cache=folder)


@PATHS
def test_a_time_limit_is_of_runs_alone(tmp_path: Path, library: Path, staged: bool) -> None:
    """Loading weights and first values of states is none."""
    (tmp_path / "svdf.tflite").write_bytes(svdf())
    with vknn.Session(tmp_path / "svdf.tflite", device="vulkan") as session:
        vknn.export(session, tmp_path / "svdf.vkb", targets=session.device.limits)
    with Runner(tmp_path / "svdf.vkb", library=library, staged=staged, time_limit=1e-9) as runner:
        assert [*runner.inputs] == ["x"]


@PATHS
def test_state_is_kept_and_reset(tmp_path: Path, library: Path, staged: bool) -> None:
    model = tmp_path / "svdf.tflite"
    model.write_bytes(svdf())
    inputs = [np.random.default_rng(n).standard_normal((1, 3)).astype("f4") for n in range(3)]
    with vknn.Session(model, device="vulkan") as session:
        wanted = [session.run({"x": x})["y"] for x in inputs]
        limits = session.device.limits
    assert not np.array_equal(wanted[0], wanted[1])
    vknn.export(model, tmp_path / "svdf.vkb", targets=limits)
    with Runner(tmp_path / "svdf.vkb", library=library, staged=staged) as runner:
        for _ in range(2):
            for x, y in zip(inputs, wanted, strict=True):
                np.testing.assert_array_equal(runner.run({"x": x})["y"], y)
            runner.reset()
        assert runner.test()[0]  # from the first value on
        np.testing.assert_array_equal(runner.run({"x": inputs[0]})["y"], wanted[0])
