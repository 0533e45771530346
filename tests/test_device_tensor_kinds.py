"""Device tensors of every kind: dtypes, states, loops, data that decide, parts on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.chained_models import BACKENDS, written
from tests.coreml_writer import array_feature, layer, model
from tests.coreml_writer import session as coreml_session
from tests.formats.coreml.test_classifier import SCORES
from tests.formats.coreml.test_classifier import net as classifier
from tests.formats.ncnn.nets import net, write
from tests.formats.tflite.test_enums import deciding
from tests.formats.tflite.test_recurrent import X, rnn
from tests.helpers import skip_without_half
from tests.openvino_writer import Net as IrNet
from tests.tflite_writer import Net

import vknn


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


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("own", "wide"), [("int32", "int64"), ("float32", "float64")])
def test_casts_that_ports_do(own: str, wide: str, precision: str, tmp_path: Path) -> None:
    """Elements that a host's wider type holds are widened there: no step of the host's."""
    if precision == "fp16":
        skip_without_half()
    made = Net()
    made.inputs, made.outputs = [made.tensor("x", (2, 3), own)], [made.tensor("y", (2, 3), wide)]
    middle = made.tensor("a", (2, 3), own)
    made.add("ABS", made.inputs, [middle])
    made.add("CAST", [middle], made.outputs)
    x = np.array([[0, -1, 2], [-3, 70000 if own == "int32" else 3.5, 5]], own)
    options = {"device": "vulkan", "precision": precision}
    with vknn.Session(written(tmp_path, made), **options) as session:  # type: ignore[arg-type]
        y = session.run(x)["y"]
        assert y.dtype == wide and np.array_equal(y, abs(x))
        with session.run(x, on_device=True)["y"] as kept:
            assert kept.dtype == wide and np.array_equal(kept.numpy(), y)
        assert [set(out) for out in session.stream([x] * 3)] == [{"y"}] * 3
        program = session._engine.program({"x": x})
        assert set(program.placement.values()) == {"vulkan"} and len(program.segments) == 1


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
