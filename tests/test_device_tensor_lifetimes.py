"""Device tensors and what they live on: sessions, devices, memory, threads, other processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.chained_models import NUMBERS, write_two_models
from tests.formats.ncnn.nets import net, write
from tests.small_model import write_small_model

import vknn
from vknn.runtime import live_objects


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Two networks: the first one's "sum" is the second one's input."""
    return write_two_models(tmp_path)


def left() -> dict[str, int]:
    """Objects of Vulkan, when what was dropped is closed."""
    gc.collect()
    vknn.open_device("vulkan").close()
    return live_objects()


@pytest.mark.device
def test_a_tensor_outlives_its_session(paths: tuple[Path, Path]) -> None:
    before = left()
    with vknn.Session(paths[0], device="vulkan") as first:
        middle = first.run(NUMBERS, "sum")["sum"]
        kept = first.run(NUMBERS, "sum", on_device=True)["sum"]
        other = first.run(NUMBERS, on_device=True)["out"]
        expected = first.run(NUMBERS)["out"]
    np.testing.assert_array_equal(kept.numpy(), middle)
    with vknn.Session(paths[1], device="vulkan") as second:
        np.testing.assert_array_equal(second.run(kept)["s"], second.run(middle)["s"])
    kept.close()
    np.testing.assert_array_equal(other, expected)
    assert live_objects() != before
    other.close()  # the last: the device is closed with it
    assert live_objects() == before


@pytest.mark.device
def test_a_tensor_and_its_session_that_are_dropped(tmp_path: Path) -> None:
    before = left()
    session = vknn.Session(write_small_model(tmp_path), device="vulkan")
    tensor = session.run(NUMBERS, on_device=True)["out"]
    del session
    gc.collect()
    assert np.asarray(tensor).shape == (5,)
    del tensor
    gc.collect()
    assert left() == before


@pytest.mark.device
def test_an_open_device_closes_its_tensors(tmp_path: Path) -> None:
    before = left()
    path = write_small_model(tmp_path)
    with vknn.open_device() as device:
        with vknn.Session(path, device=device) as session:
            tensor = session.run(NUMBERS, on_device=True)["out"]
        assert np.asarray(tensor).shape == (5,)
    assert tensor.closed
    assert live_objects() == before
    text = net("Input i 0 1 data", "ReLU r 1 1 data y")
    with (
        vknn.Session(write(tmp_path, text), device="vulkan") as session,
        pytest.raises(vknn.DeviceError, match="or its device was"),
    ):
        session.run(tensor)


@pytest.mark.device
def test_the_memory_limit_counts_them(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    with vknn.Session(path, device="vulkan", memory_limit="40kB") as session:
        names: list[str] = ["conv1", "sum"]
        kept: list[dict[str, vknn.DeviceTensor]] = []
        arrays = session.run(NUMBERS, names)

        def more() -> None:
            while True:
                kept.append(session.run(NUMBERS, names, on_device=True))

        with pytest.raises(vknn.OutOfMemoryError, match=r"device tensors need .* limit of 40000"):
            more()
        assert 2 < len(kept) < 14
        np.testing.assert_array_equal(session.run(NUMBERS, names)["sum"], arrays["sum"])
        with pytest.raises(vknn.OutOfMemoryError, match="beside the .* of its device tensors"):
            session.run(np.float32(np.resize(NUMBERS, (3, 16, 16))), names)
        for tensors in kept:
            for tensor in tensors.values():
                tensor.close()
        session.run(NUMBERS, names, on_device=True)


@pytest.mark.device
def test_several_threads(paths: tuple[Path, Path]) -> None:
    with (
        vknn.Session(paths[0], device="vulkan") as first,
        vknn.Session(paths[1], device="vulkan") as second,
    ):
        expected = second.run(first.run(NUMBERS, "sum")["sum"])["s"]
        shared = first.run(NUMBERS, "sum", on_device=True)["sum"]

        def work(number: int) -> None:
            for _ in range(13):
                own = first.run(NUMBERS, "sum", on_device=True)["sum"]
                for tensor in (shared, own):
                    found = second.run(tensor, on_device=number % 2 == 0)["s"]
                    np.testing.assert_array_equal(found, expected)
                own.close()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))


FORKED = """
import os, sys
import numpy as np
import vknn
feeds = {"data": np.ones((3, 8, 8), np.float32)}
with vknn.Session(sys.argv[1], device="vulkan") as session:
    tensor = session.run(feeds, on_device=True)["out"]
    pid = os.fork()
    if pid == 0:
        try:
            tensor.numpy()
            os._exit(1)
        except vknn.DeviceLostError as error:
            good = "was forked" in str(error)
        with vknn.Session(sys.argv[1], device="cpu") as own:
            own.run(feeds)
        tensor.close()
        os._exit(0 if good else 3)
    status = os.waitpid(pid, 0)[1]
    assert np.array_equal(tensor.numpy(), session.run(feeds)["out"])
print(status)
"""


@pytest.mark.device
def test_a_forked_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(write_small_model(tmp_path))]
    variables = {**os.environ, "VKNN_VALIDATE": "0"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=250)
    assert done.stdout == "0\n", done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize("disabled", ["", "unified"])
def test_ten_thousand_runs(
    paths: tuple[Path, Path], disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    with (
        vknn.Session(paths[0], device="vulkan") as first,
        vknn.Session(paths[1], device="vulkan") as second,
    ):
        assert first.device is not None
        expected = second.run(first.run(NUMBERS, "sum")["sum"])["s"]
        for number in range(10_000):
            tensor = first.run(NUMBERS, "sum", on_device=True)["sum"]
            found = second.run(tensor, on_device=True)["s"]
            if number == 10:
                held, objects = first.device.memory_allocated, live_objects()
        assert first.device.memory_allocated == held
        assert live_objects() == objects
        np.testing.assert_array_equal(found, expected)
