"""The examples of a bundle, which the runner compares its own answers with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests import onnx_writer
from tests.bundle import build
from tests.bundle.edits import edited, records
from tests.bundle.networks import Made, small

import vknn
from vknn.bundle.runner import Runner
from vknn.bundle.schema import StepKind
from vknn.errors import InputError
from vknn.formats.onnx.element_types import BY_DTYPE
from vknn.graph import DType
from vknn.ops.elementwise.binary import Cast

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


def test_example(net: Made, tmp_path: Path, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        good, told = runner.test()
    assert good, told
    assert "0 of 5 elements are off" in told

    raw = net.path.read_bytes()
    output = records(raw, "port")["buffer"][-1]

    def filled(steps: np.ndarray) -> None:
        last = np.flatnonzero(steps["kind"] == StepKind.DISPATCH)[-1]
        steps["kind"][last], steps["target"][last] = StepKind.FILL, output
        steps["word"][last] = 0x3F800000

    wrong = edited(net.path, tmp_path / "wrong.vkb", "step", filled)
    with Runner(wrong, library=library) as runner:
        good, told = runner.test()
    assert not good
    assert "5 of 5 elements are off" in told


def test_example_without_answers(net: Made, tmp_path: Path, library: Path) -> None:
    def only_input(examples: np.ndarray) -> None:
        examples[:] = examples[0]

    path = edited(net.path, tmp_path / "x.vkb", "example", only_input)
    with Runner(path, library=library) as runner:
        with pytest.raises(InputError, match="no example with"):
            runner.test()
        document = json.loads(runner.test_json())
    assert (document["ok"], document["outputs"]) == (False, [])
    assert document["error"].startswith("argument: the bundle has no example with answers")


def test_outputs_without_answers_are_named(tmp_path: Path, library: Path) -> None:
    model = tmp_path / "two.param"
    model.write_text("7767517\n3 4\nInput x 0 1 x\nSplit s 1 2 x a b\nReLU relu 1 1 b y\n")
    vknn.export(model, tmp_path / "two.vkb", shapes={"x": (2, 3, 5)})

    def first_answer_twice(examples: np.ndarray) -> None:
        examples[-1] = examples[-2]

    path = edited(tmp_path / "two.vkb", tmp_path / "one.vkb", "example", first_answer_twice)
    for bundle, counts in ((tmp_path / "two.vkb", 0), (path, 1)):
        with Runner(bundle, library=library) as runner:
            good, told = runner.test()
        assert good
        assert told.count("not compared, the example has no answer for it") == counts


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


def test_casts_of_what_does_not_fit(tmp_path: Path, library: Path) -> None:
    """Floats beyond a type saturate and NaN is 0: in the example as on the device, whether a
    dispatch of the network casts or one of a port."""
    x = np.float32([-1, -2.5, -0.5, 127.6, -129, 255.4, 300, -4e4, 7e4, 3e9, -3e9, 5e9, 1e19, 2e19])
    x = np.append(x, np.float32([-1e19, 1e-5, np.nan, np.inf, -np.inf]))
    nodes, outputs = [], []
    for name in INTEGERS:
        dtype = DType(name)
        nodes.append(onnx_writer.node("Cast", "x", name, to=BY_DTYPE[dtype].number))
        outputs.append(onnx_writer.value(name, x.shape, dtype))
    graph = onnx_writer.graph(nodes, [onnx_writer.value("x", x.shape)], outputs)
    model = onnx_writer.save(onnx_writer.model(graph), tmp_path)
    vknn.export(model, tmp_path / "net.vkb", example={"x": x})
    with Runner(tmp_path / "net.vkb", library=library) as runner:
        good, told = runner.test()
        found = runner.run({"x": x})
    assert good, told
    for name in INTEGERS:
        (expected,) = Cast(DType(name)).reference(x)
        np.testing.assert_array_equal(found[name], expected, name)


@pytest.mark.parametrize(
    ("op", "indices"),
    [
        ("Gather", [0, -1, 4, 5, -6, 100, 2**40 + 3]),
        ("GatherND", [[4, 1], [-1, 2], [9, 1], [2, -9], [-7, 7]]),
    ],
)
def test_words_by_number(tmp_path: Path, library: Path, op: str, indices: list[int]) -> None:
    """64-bit indices as an input; out of range the low bits count, then the nearest entry."""
    given = {"t": np.float32(np.arange(15)).reshape(5, 3), "i": np.array(indices)}
    inputs = [
        onnx_writer.value(name, array.shape, DType.of(array)) for name, array in given.items()
    ]
    graph = onnx_writer.graph([onnx_writer.node(op, "t i")], inputs, [onnx_writer.value("y", None)])
    model = onnx_writer.save(onnx_writer.model(graph), tmp_path)
    right = {**given, "i": given["i"] % 3}
    vknn.export(model, tmp_path / "net.vkb", example=right)
    low = given["i"].astype(np.int32)
    sizes = np.array(given["t"].shape)[: 1 if op == "Gather" else 2]
    nearest = np.clip(np.where(low < 0, low + sizes, low), 0, sizes - 1)
    places = (nearest,) if op == "Gather" else tuple(nearest.T)
    with Runner(tmp_path / "net.vkb", library=library) as runner:
        good, told = runner.test()
        assert good, told
        np.testing.assert_array_equal(runner.run(given)["y"], given["t"][places])
        found = runner.run(right)["y"]
    with vknn.Session(model, device="numpy") as session:
        np.testing.assert_array_equal(found, session.run(right)["y"])
