"""Device tensors: results that stay on the device, as inputs of other runs or read later."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.chained_models import BACKENDS, NUMBERS, write_two_models
from tests.formats.ncnn.nets import net, write
from tests.helpers import skip_without_half
from tests.small_model import write_small_model

import vknn
from vknn.runtime import DeviceArray
from vknn.runtime.vulkan.transfer import Transfer


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Two networks: the first one's "sum" is the second one's input."""
    return write_two_models(tmp_path)


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is copied from the device before the fixture is undone."""

    def refused(*_: Any) -> Any:
        raise AssertionError("a copy from the device")

    with monkeypatch.context() as patch:
        patch.setattr(Transfer, "download", refused)
        patch.setattr(DeviceArray, "numpy", refused)
        yield patch


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("disabled", ["", "unified"])
def test_a_chain_without_the_host(
    paths: tuple[Path, Path],
    disabled: str,
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
    no_copies: pytest.MonkeyPatch,
) -> None:
    """The host neither reads nor writes between two networks, and results are as with it."""
    if precision != "fp32":
        skip_without_half()
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    options: dict[str, Any] = {"device": "vulkan", "precision": precision}
    with vknn.Session(paths[0], **options) as first, vknn.Session(paths[1], **options) as second:
        assert first.device is not second.device
        expected = []
        for factor in (1, 2, 3):
            x = {"data": factor * NUMBERS}
            middle = first.run(x, ["sum"])["sum"]
            expected.append((middle, second.run({"data": middle})["s"]))
        kept = [first.run({"data": f * NUMBERS}, ["sum"], on_device=True) for f in (1, 2, 3)]
        found = [second.run(k["sum"], on_device=True)["s"] for k in kept]
        again = [second.run({"data": k["sum"]})["s"] for k in kept]
        no_copies.undo()
        for tensors, s, array, (middle, result) in zip(kept, found, again, expected, strict=True):
            np.testing.assert_array_equal(tensors["sum"].numpy(), middle)
            np.testing.assert_array_equal(s.numpy(), result)
            np.testing.assert_array_equal(array, result)
            assert tensors["sum"].device is first.device


@pytest.mark.device
def test_another_precision_is_converted_by_the_host(
    paths: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    skip_without_half()
    caplog.set_level("DEBUG", "vknn")
    with (
        vknn.Session(paths[0], device="vulkan", precision="fp16") as first,
        vknn.Session(paths[1], device="vulkan") as second,
        vknn.Session(paths[1], device="numpy") as host,
    ):
        middle = first.run(NUMBERS, ["sum"])["sum"]
        kept = first.run(NUMBERS, ["sum"], on_device=True)["sum"]
        assert "copied" not in caplog.text
        np.testing.assert_array_equal(second.run(kept)["s"], second.run(middle)["s"])
        assert "'data' is copied from the device: it is stored in another" in caplog.text
        caplog.clear()
        np.testing.assert_array_equal(host.run(kept)["s"], host.run(middle)["s"])
        assert "'data' is copied from the device: a part of the network that" in caplog.text


@pytest.mark.parametrize("device", BACKENDS)
def test_which_outputs_stay(device: str, tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        expected = session.run(NUMBERS, ["conv1", "out"])
        for names in ("out", ["out"], ("out", "out")):
            found = session.run(NUMBERS, ["conv1", "out"], on_device=names)
            assert list(found) == ["conv1", "out"]
            assert isinstance(found["conv1"], np.ndarray)
            assert isinstance(found["out"], vknn.DeviceTensor)
            for name, array in expected.items():
                np.testing.assert_array_equal(np.asarray(found[name]), array)
        for flag, kind in ((True, vknn.DeviceTensor), (False, np.ndarray), ((), np.ndarray)):
            assert isinstance(session.run(NUMBERS, on_device=flag)["out"], kind)
        for unknown in ("conv1", "zzz"):
            with pytest.raises(vknn.InputError, match=f"'{unknown}' is not among the outputs"):
                session.run(NUMBERS, on_device=["out", unknown])
        assert session.run(NUMBERS, [], on_device=True) == {}


@pytest.mark.parametrize("device", BACKENDS)
def test_what_a_tensor_says(device: str, tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        expected = session.run(NUMBERS)["out"]
        with session.run(NUMBERS, on_device=True)["out"] as tensor:
            assert (tensor.name, tensor.shape, tensor.dtype) == ("out", (5,), np.float32)
            assert (tensor.ndim, tensor.size, tensor.nbytes) == (1, 5, 20)
            assert tensor.device is session.device
            place = "in the host's memory"
            if session.device is not None:
                place = f"on {session.device.name}"
            assert repr(tensor) == f"<vknn.DeviceTensor out float32[5] {place}>"
            first = tensor.numpy()
            first += 1  # the caller's own
            for found in (
                tensor.numpy(),
                np.asarray(tensor),
                np.array(tensor, copy=True),
                np.from_dlpack(tensor),
                np.multiply(tensor, 1),
            ):
                np.testing.assert_array_equal(found, expected)
            assert np.asarray(tensor, np.float64).dtype == np.float64
            assert tensor.__dlpack_device__() == (1, 0)
            with pytest.raises(BufferError, match="without a copy"):
                tensor.__dlpack__(copy=False)
            with pytest.raises(BufferError, match="in the host's memory only"):
                tensor.__dlpack__(dl_device=(2, 0))
            with pytest.raises(ValueError, match="without a copy"):
                tensor.__array__(copy=False)
            for copying in (copy.copy, copy.deepcopy):
                with pytest.raises(vknn.VknnError, match="cannot be copied"):
                    copying(tensor)
            with pytest.raises(vknn.VknnError, match="cannot be pickled"):
                pickle.dumps(tensor)
            assert not tensor.closed
        assert tensor.closed
        assert repr(tensor).endswith(f"{place}, closed>")
        tensor.close()
        for use in (tensor.numpy, tensor.__dlpack__, lambda: np.asarray(tensor)):
            with pytest.raises(vknn.DeviceError, match="'out' was closed"):
                use()


@pytest.mark.parametrize("device", BACKENDS)
def test_closed_tensors_as_inputs(device: str, paths: tuple[Path, Path]) -> None:
    with (
        vknn.Session(paths[0], device=device) as first,
        vknn.Session(paths[1], device=device) as second,
    ):
        for _ in range(2):  # the second time the session knows the types
            tensor = first.run(NUMBERS, ["sum"], on_device=True)["sum"]
            expected = second.run(tensor)["s"]
            tensor.close()
            with pytest.raises(vknn.DeviceError, match="'sum' was closed"):
                second.run(tensor)
        np.testing.assert_array_equal(second.run(first.run(NUMBERS, "sum")["sum"])["s"], expected)


@pytest.mark.parametrize("device", BACKENDS)
def test_what_does_not_fit_is_refused_as_an_array_is(device: str, paths: tuple[Path, Path]) -> None:
    with (
        vknn.Session(paths[0], device=device) as first,
        vknn.Session(paths[1], device=device) as second,
    ):
        names = ["out", "conv1"]
        arrays, tensors = first.run(NUMBERS, names), first.run(NUMBERS, names, on_device=True)
        expected = second.run({"data": arrays["conv1"]})["s"]
        for given in ({"data": "out"}, {"wrong": "conv1"}, {}, {"data": "conv1", "b": "out"}):
            texts = []
            for kept in (arrays, tensors):
                with pytest.raises(vknn.VknnError) as caught:
                    second.run({name: kept[which] for name, which in given.items()})
                texts.append(f"{type(caught.value)} {caught.value}")
            assert texts[0] == texts[1]
            np.testing.assert_array_equal(second.run({"data": tensors["conv1"]})["s"], expected)


@pytest.mark.parametrize("device", BACKENDS)
def test_streams(device: str, paths: tuple[Path, Path]) -> None:
    given = [{"data": factor * NUMBERS} for factor in range(1, 6)]
    with (
        vknn.Session(paths[0], device=device) as first,
        vknn.Session(paths[1], device=device) as second,
    ):
        outputs = [first.run(x)["out"] for x in given]
        streamed = list(first.stream(given, on_device=True))
        for array, results in zip(outputs, streamed, strict=True):
            assert isinstance(results["out"], vknn.DeviceTensor)
            np.testing.assert_array_equal(results["out"], array)
        middles = [first.run(x, "sum")["sum"] for x in given]
        kept = [first.run(x, "sum", on_device=True)["sum"] for x in given]
        expected = [second.run(m)["s"] for m in middles]
        mixed = [{"data": (kept if i % 3 == 1 else middles)[i]} for i in range(5)]
        for source in ([{"data": k} for k in kept], mixed):
            found = [results["s"] for results in second.stream(source)]
            for array, result in zip(found, expected, strict=True):
                np.testing.assert_array_equal(array, result)
        kept[2].close()
        stream = second.stream(({"data": k} for k in kept), errors="raise")
        for result in expected[:2]:
            np.testing.assert_array_equal(next(stream)["s"], result)
        with pytest.raises(vknn.DeviceError, match="'sum' was closed"):
            next(stream)
        answers = second.run_many({"data": k} for k in kept)
        assert "'sum' was closed" in str(answers.pop(2))
        for answer, result in zip(answers, expected[:2] + expected[3:], strict=True):
            np.testing.assert_array_equal(answer["s"], result)


@pytest.mark.parametrize("device", BACKENDS)
def test_limits_of_time(device: str, tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        expected = session.run(NUMBERS)["out"]
        found = session.run(NUMBERS, timeout=100, on_device=True)["out"]
        np.testing.assert_array_equal(found, expected)
        with pytest.raises(vknn.RunTimeoutError):
            session.run(NUMBERS, timeout=1e-9, on_device=True)
        np.testing.assert_array_equal(session.run(NUMBERS, on_device=True)["out"], expected)


@pytest.mark.device
def test_tools_take_them(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    with vknn.Session(path, device="vulkan") as session:
        kept = session.run(NUMBERS, ["data"], on_device=True)["data"]
        deeper = session.run(NUMBERS, ["conv1"], on_device=True)["conv1"]
        assert vknn.verify(session, {"data": kept}).ok
        vknn.profile(session, {"data": kept}, runs=1)
        text = net("Input i 0 1 data", "ReLU r 1 1 data y")
        with vknn.Session(write(tmp_path, text), device="vulkan") as other:
            assert vknn.verify(other, {"data": deeper}).ok


@pytest.mark.device
def test_traced_runs_are_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_small_model(tmp_path)
    with vknn.Session(path, device="vulkan") as session:
        kept = session.run(NUMBERS, ["sum", "out"], on_device=True)
    monkeypatch.setenv("VKNN_DEBUG", "4")
    text = net("Input i 0 1 data", "ReLU r 1 1 data y")
    with vknn.Session(write(tmp_path, text), device="vulkan") as session:
        found = session.run(kept["sum"], on_device=True)["y"]
        np.testing.assert_array_equal(found, np.maximum(np.asarray(kept["sum"]), 0))
    assert "data: float32[1, 6, 8, 8]" in capfd.readouterr().err
