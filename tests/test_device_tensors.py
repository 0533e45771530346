"""Device tensors: results that stay on the device, as inputs of other runs or read later."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import array_feature, layer, model
from tests.coreml_writer import session as coreml_session
from tests.formats.coreml.test_classifier import SCORES
from tests.formats.coreml.test_classifier import net as classifier
from tests.formats.ncnn.nets import net, write
from tests.formats.tflite.test_enums import deciding
from tests.formats.tflite.test_recurrent import X, rnn
from tests.helpers import skip_without_half
from tests.openvino_writer import Net as IrNet
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net

import vknn
from vknn.runtime import DeviceArray, live_objects
from vknn.runtime.vulkan.transfer import Transfer

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]
NUMBERS = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
#: Takes what the small network computes in its middle, "sum".
SECOND = """7767517
4 4
Input            data 0 1 data 0=8 1=8 2=6
Convolution      c    1 1 data c 0=5 1=3 4=1 5=1 6=270 9=1
Pooling          p    1 1 c p 0=1 4=1
Softmax          s    1 1 p s
"""


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Two networks: the first one's "sum" is the second one's input."""
    (tmp_path / "second").mkdir()
    return write_small_model(tmp_path), write(tmp_path / "second", SECOND)


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is copied from the device before the fixture is undone."""

    def refused(*_: Any) -> Any:
        raise AssertionError("a copy from the device")

    with monkeypatch.context() as patch:
        patch.setattr(Transfer, "download", refused)
        patch.setattr(DeviceArray, "numpy", refused)
        yield patch


def left() -> dict[str, int]:
    """Objects of Vulkan, when what was dropped is closed."""
    gc.collect()
    vknn.open_device("vulkan").close()
    return live_objects()


def written(tmp_path: Path, made: Net, name: str = "net") -> Path:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(made.file())
    return path


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


QUANTIZED = {"scale": 0.05, "zero_point": 3}


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "uint8", "bool", "int64", "int16"])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
def test_dtypes(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """Also numbers that the dtype cannot hold, of which a cast keeps the lower bits."""
    first, second = Net(), Net()
    first.inputs, first.outputs = [first.tensor("x", shape)], [first.tensor("y", shape, dtype)]
    first.add("CAST", first.inputs, first.outputs)
    second.inputs, second.outputs = [second.tensor("y", shape, dtype)], [second.tensor("z", shape)]
    second.add("CAST", second.inputs, second.outputs)
    x = np.resize(np.float32([0, 1, 2, 100, 3.7, 7]), shape)
    with (
        vknn.Session(written(tmp_path, first), device="vulkan") as a,
        vknn.Session(written(tmp_path, second, "second"), device="vulkan") as b,
    ):
        for given in (x, 300 * x, -3 * x):
            middle = a.run(given)["y"]
            with a.run(given, on_device=True)["y"] as kept:
                assert (kept.shape, kept.dtype) == (shape, np.dtype(dtype))
                assert np.array_equal(kept.numpy(), middle)
                np.testing.assert_array_equal(b.run(kept)["z"], b.run(middle)["z"])
                np.testing.assert_array_equal(
                    b.run(kept, on_device=True)["z"].numpy(), b.run(middle)["z"]
                )


@pytest.mark.parametrize("device", BACKENDS)
def test_narrow_integers_are_checked(device: str, tmp_path: Path) -> None:
    """Where values have to be looked at, the host does."""
    wide, narrow = Net(), Net()
    wide.inputs, wide.outputs = [wide.tensor("x", (4,), "int8")], [wide.tensor("y", (4,), "int8")]
    wide.add("RESHAPE", [0, wide.tensor("shape", data=[4], dtype="int32")], [1])
    narrow.inputs = [narrow.tensor("x", (4,), "int4")]
    narrow.outputs = [narrow.tensor("y", (2, 2), "int4")]
    narrow.add("RESHAPE", [0, narrow.tensor("shape", data=[2, 2], dtype="int32")], [1])
    with (
        vknn.Session(written(tmp_path, wide), device=device) as a,
        vknn.Session(written(tmp_path, narrow, "narrow"), device=device) as b,
    ):
        good = a.run(np.int8([-8, 0, 1, 7]), on_device=True)["y"]
        bad = a.run(np.int8([-8, 0, 1, 8]), on_device=True)["y"]
        for _ in range(2):
            np.testing.assert_array_equal(b.run(good)["y"], [[-8, 0], [1, 7]])
            with pytest.raises(vknn.InputError, match="numbers from -8 to 7"):
                b.run(bad)


@pytest.mark.parametrize("device", BACKENDS)
def test_data_that_decide_shapes(device: str, tmp_path: Path) -> None:
    text = net("Input i 0 1 x", "Input j 0 1 n", "Crop c 2 1 x n y 0=-233")
    (tmp_path / "give").mkdir()
    give = net("Input i 0 1 x", "Input j 0 1 n", "Crop c 2 1 x n y 0=-233", "Noop o 1 1 n m")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    with vknn.Session(write(tmp_path, text), device=device) as session:
        for top in (1, 2):
            n = np.array([1, top, 0, 3, 2, 0], np.int32)
            expected = session.run({"x": x, "n": n})["y"]
            with vknn.Session(write(tmp_path / "give", give), device=device) as other:
                kept = other.run({"x": x, "n": n}, ["n"], on_device=True)["n"]
            np.testing.assert_array_equal(session.run({"x": x, "n": kept})["y"], expected)


@pytest.mark.parametrize("device", BACKENDS)
@pytest.mark.parametrize("disabled", ["", "unified"])
def test_parts_of_the_network_on_the_host(
    device: str, disabled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """int64 is the host's: what comes before and behind is the device's."""
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    made = Net()
    dtypes = {"b": "int64"}
    x, a, b, c, y = (made.tensor(n, (2, 3), dtypes.get(n, "float32")) for n in "xabcy")
    made.inputs, made.outputs = [x], [a, b, c, y]
    made.add("NEG", [x], [a])
    made.add("CAST", [a], [b])
    made.add("CAST", [b], [c])
    made.add("ABS", [c], [y])
    feeds = {"x": np.float32([[1, 2.5, -3], [0, -7, 11]])}
    with vknn.Session(written(tmp_path, made), device=device) as session:
        expected = session.run(feeds)
        found = session.run(feeds, on_device=True)
        places = {name: tensor.device is not None for name, tensor in found.items()}
        assert places == {n: device == "vulkan" and n != "b" for n in "abcy"} | {"c": places["c"]}
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name].numpy(), array)
        again = session.run({"x": found["a"]}, on_device="y")
        np.testing.assert_array_equal(again["y"].numpy(), session.run({"x": expected["a"]})["y"])


@pytest.mark.parametrize("device", BACKENDS)
def test_loops(device: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    feeds = {"c": np.array([False]), "x": np.float32([1, 2])}
    with vknn.Session(path, device=device) as session:
        expected = session.run(feeds)["y"]
        kept = session.run(feeds, on_device=True)["y"]
        np.testing.assert_array_equal(kept.numpy(), expected)
        again = session.run({"c": feeds["c"], "x": kept}, on_device=True)["y"]
        np.testing.assert_array_equal(again, session.run({"c": feeds["c"], "x": expected})["y"])


@pytest.mark.parametrize("device", BACKENDS)
def test_state(device: str, tmp_path: Path) -> None:
    path = tmp_path / "rnn.tflite"
    path.write_bytes(rnn(6).file())
    with vknn.Session(path, device=device) as session:
        expected = [session.run({"x": X})["y"] for _ in range(3)]
        session.reset_state()
        kept = [session.run({"x": X}, on_device=True)["y"] for _ in range(3)]
        for array, tensor in zip(expected, kept, strict=True):
            np.testing.assert_array_equal(tensor, array)
        session.reset_state()
        streamed = list(session.stream([{"x": X}] * 3, on_device=True))
        for array, results in zip(expected, streamed, strict=True):
            np.testing.assert_array_equal(results["y"], array)


@pytest.mark.parametrize("device", BACKENDS)
def test_outputs_that_are_inputs(device: str, tmp_path: Path) -> None:
    """A tensor does not change with the caller's array."""
    text = net("Input i 0 1 x", "Split s 1 3 x a b c", "ReLU r 1 1 c y")
    x = np.float32([[1, -2, 3]])
    with vknn.Session(write(tmp_path, text), device=device) as session:
        given = x.copy()
        kept = session.run(given, on_device=True)
        given[...] = 7
        np.testing.assert_array_equal(kept["a"], x)
        again = session.run(kept["a"], on_device=True)
        for tensor in kept.values():
            tensor.close()
        for name, tensor in again.items():
            np.testing.assert_array_equal(tensor, np.maximum(x, 0) if name == "y" else x)
        mixed = session.run(again["a"], on_device="a")
        np.testing.assert_array_equal(mixed["a"].numpy(), mixed["b"])


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
        stream = second.stream({"data": k} for k in kept)
        for result in expected[:2]:
            np.testing.assert_array_equal(next(stream)["s"], result)
        with pytest.raises(vknn.DeviceError, match="'sum' was closed"):
            next(stream)


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
def test_classifiers_numbers_and_labels(tmp_path: Path) -> None:
    message = classifier(["a", "b", "c", "d"])
    message.description.output.append(array_feature("y", (2, 2)))
    message.description.output.add(name="n").type.doubleType.SetInParent()
    part = message.neuralNetworkClassifier
    part.layers[0].CopyFrom(layer("unary", type="ABS"))
    part.layers.append(layer("reduceMax", ["y"], ["n"], reduceAll=True))
    part.labelProbabilityLayerName = "y"
    x = {"x": SCORES}
    for device in ("vulkan", "numpy"):
        with coreml_session(message, device) as session:
            expected = session.run(x)
            found = session.run(x, on_device=True)
            assert found["y"].shape == (2, 2)
            assert (found["y"].device is None) == (device == "numpy")
            np.testing.assert_array_equal(found.pop("y"), expected.pop("y"))
            assert found == expected and type(found["n"]) is float and found["label"] == "c"
    with coreml_session(
        model([layer("unary", type="ABS")], {"x": (4,)}, rank5=True), "vulkan"
    ) as session:
        expected = session.run(x)["y"]
        kept = session.run(x, on_device=True)["y"]
        assert kept.shape == expected.shape and kept.device is not None
        np.testing.assert_array_equal(kept, expected)
        np.testing.assert_array_equal(session.run(kept)["y"].ravel(), expected.ravel())


@pytest.mark.parametrize("device", BACKENDS)
def test_wide_integers_of_openvino(device: str, tmp_path: Path) -> None:
    """The host makes int64 of int32."""
    made = IrNet()
    x = made.input("x", (2, 3), "I64")
    made.layer("Reshape", [x], [(2, 3)], {"dim": [2, 3]}, name="y", precision="I64")
    given = np.int64([[1, -2, 3], [4, 5, -6]])
    with vknn.Session(made.save(tmp_path), device=device) as session:
        expected = session.run(given)
        found = session.run(given, on_device=True)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype == np.int64
            np.testing.assert_array_equal(found[name], array)
            np.testing.assert_array_equal(session.run(found[name])[name], array)


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


@pytest.mark.device
def test_several_threads(paths: tuple[Path, Path]) -> None:
    with (
        vknn.Session(paths[0], device="vulkan") as first,
        vknn.Session(paths[1], device="vulkan") as second,
    ):
        expected = second.run(first.run(NUMBERS, "sum")["sum"])["s"]
        shared = first.run(NUMBERS, "sum", on_device=True)["sum"]
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for _ in range(13):
                    own = first.run(NUMBERS, "sum", on_device=True)["sum"]
                    for tensor in (shared, own):
                        found = second.run(tensor, on_device=number % 2 == 0)["s"]
                        np.testing.assert_array_equal(found, expected)
                    own.close()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors


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
