"""What a session knows again is taken as it would be at its first sight."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import net, write
from tests.tflite_writer import Net

import vknn
from vknn.formats import Model, TensorSpec
from vknn.graph import DType
from vknn.input_encoder import InputEncoder

ADD = net("Input i 0 1 a", "Input j 0 1 b", "BinaryOp add 2 1 a b sum 0=0", "ReLU r 1 1 sum y")
SHAPE = (2, 3, 4)


def numbers(dtype: str = "float32", shape: tuple[int, ...] = SHAPE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


@pytest.fixture(params=["auto", "numpy"])
def session(request: pytest.FixtureRequest, tmp_path: Path):
    with vknn.Session(write(tmp_path, ADD), device=request.param) as opened:
        yield opened


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the inputs that were encoded."""
    seen: list[str] = []
    encode = vknn.formats.ncnn.model.NcnnModel.encode

    def watched(self: Model, name: str, array: np.ndarray) -> np.ndarray:
        seen.append(name)
        return encode(self, name, array)

    monkeypatch.setattr(vknn.formats.ncnn.model.NcnnModel, "encode", watched)
    return seen


def check(session: vknn.Session, a: np.ndarray, b: np.ndarray) -> None:
    result = session.run({"b": b, "a": a})["y"]
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.maximum(np.float32(a) + np.float32(b), 0))


def test_arrays_of_the_same_types_are_not_looked_at_again(session, looks):
    for seed in range(3):
        check(session, numbers(seed=seed), numbers(seed=seed + 9))
    assert looks == ["a", "b"]


def test_results_stay_the_callers(session):
    first = session.run({"a": numbers(), "b": numbers()})["y"]
    kept = first.copy()
    session.run({"a": numbers(seed=1), "b": numbers(seed=2)})
    np.testing.assert_array_equal(first, kept)
    first += 1
    check(session, numbers(), numbers())


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "bool", "int16", "int32", "int64", "float16", "float64", ">f4"]
)
def test_other_dtypes_before_and_behind(session, dtype):
    for first, second in (("float32", dtype), (dtype, dtype), (dtype, "float32")):
        check(session, numbers(first), numbers(second))
        check(session, numbers(first, seed=3), numbers(second, seed=4))


def test_arrays_that_lie_otherwise(session, looks):
    for _ in range(2):
        check(session, numbers(), numbers())
    for strange in (
        numbers(shape=SHAPE[::-1]).transpose(2, 1, 0),
        numbers(shape=(2, 3, 8))[:, :, ::2],
        numbers()[::-1],
        np.broadcast_to(np.float32(3), SHAPE),
        np.ma.masked_array(numbers(), numbers() > 0),
        numbers().tolist(),
    ):
        looks.clear()
        check(session, numbers(), strange)
        assert looks == ["a", "b"]
        check(session, numbers(), numbers())


def test_shapes_in_turn(session):
    for width in (4, 5, 4, 4, 5, 5, *range(1, 12), 4):
        shape = (2, 3, width)
        check(session, numbers(shape=shape), numbers(shape=shape, seed=width))
        session._engine.program({"a": numbers(), "b": numbers()})


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"a": numbers()}, "missing input 'b'"),
        ({"a": numbers(), "c": numbers()}, "missing input 'b'; unknown input 'c'"),
        ({"a": numbers(), "b": numbers(), "c": numbers()}, "unknown input 'c'"),
        ({"a": numbers(), "b": numbers("complex64")}, "input 'b': arrays of dtype complex64"),
        ({"a": numbers(), "b": np.zeros((1, 1, *SHAPE), np.float32)}, "input 'b' has the shape"),
        ({"a": numbers(), "b": None}, "input 'b'"),
    ],
)
def test_wrong_inputs_behind_right_ones(session, feeds, message):
    for _ in range(2):
        check(session, numbers(), numbers())
        with pytest.raises(vknn.InputError, match=message):
            session.run(feeds)


def test_a_session_closed_behind_its_runs(session):
    for _ in range(2):
        check(session, numbers(), numbers())
    session.close()
    with pytest.raises(vknn.VknnError, match="session is closed"):
        session.run({"a": numbers(), "b": numbers()})


@pytest.mark.parametrize("device", ["auto", "numpy"])
def test_data_that_decide_shapes_are_looked_at_each_time(tmp_path, device):
    text = net("Input i 0 1 x", "Input j 0 1 n", "Crop c 2 1 x n y 0=-233")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    with vknn.Session(write(tmp_path, text), device=device) as session:
        for top in (1, 2, 1, 1):
            n = np.array([1, top, 0, 3, 2, 0], np.int32)
            np.testing.assert_array_equal(session.run({"x": x, "n": n})["y"], x[top : top + 2, 1:4])


@pytest.mark.parametrize("device", ["auto", "numpy"])
def test_numbers_of_a_narrow_type_are_looked_at_each_time(tmp_path, device):
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (4,), "int4")], [net.tensor("y", (2, 2), "int4")]
    net.add("RESHAPE", [0, net.tensor("shape", data=[2, 2], dtype="int32")], [1])
    path = tmp_path / "narrow.tflite"
    path.write_bytes(net.file())
    with vknn.Session(path, device=device) as session:
        for _ in range(2):
            x = np.int8([-8, 0, 1, 7])
            np.testing.assert_array_equal(session.run({"x": x})["y"], x.reshape(2, 2))
        with pytest.raises(vknn.InputError, match="numbers from -8 to 7"):
            session.run({"x": np.int8([-8, 0, 1, 8])})


class OneInput(Model):
    """A model whose one input is encoded by a function."""

    inputs = (TensorSpec("x", None, DType.FLOAT32),)
    outputs = ()

    def __init__(self, encode):
        self.encode = lambda name, array: encode(array)

    def build(self, types, values=None):
        raise NotImplementedError

    encode = build

    def decode(self, name, array):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("encode", "plain"),
    [
        (lambda x: x, True),
        (lambda x: x.reshape(1, -1), True),
        (lambda x: x[:1], False),
        (lambda x: x[::-1], False),
        (lambda x: 2 * x, False),
        (lambda x: x.view(np.int32), False),
        (lambda x: x.astype(np.float64), False),
    ],
)
def test_only_what_is_reshaped_is_known_again(encode, plain):
    encoder = InputEncoder(OneInput(encode))
    feeds = {"x": numbers()}
    assert encoder.recall(feeds) is None
    made = encoder.encode(feeds)
    encoder.remember(feeds, made)
    found = encoder.recall(feeds)
    assert (found is not None) == plain
    if found is not None:
        assert found["x"].shape == made["x"].shape
        np.testing.assert_array_equal(found["x"], made["x"])
    encoder.forget()
    assert encoder.recall(feeds) is None


def test_what_was_turned_is_not_known_again():
    encoder = InputEncoder(OneInput(np.transpose))
    feeds = {"x": np.asfortranarray(numbers(shape=(2, 3)))}
    encoder.remember(feeds, encoder.encode(feeds))
    assert encoder.recall({"x": numbers(shape=(2, 3))}) is None


@pytest.mark.device
def test_a_run_takes_few_calls(tmp_path):
    """Functions of Python that a run calls: what the host adds grows with them.

    Without those that guard the validation layer, which users do not have.
    """
    calls = []

    def note(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and not file.endswith(("layer_guard.py", "threading.py")):
            calls.append(frame.f_code.co_name)

    with vknn.Session(write(tmp_path, ADD), device="vulkan") as session:
        feeds = {"a": numbers(), "b": numbers()}
        for _ in range(2):
            session.run(feeds)
        sys.setprofile(note)
        session.run(feeds)
        sys.setprofile(None)
    assert len(calls) <= 24, calls
