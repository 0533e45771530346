"""Ports in the user's words: the plan with conversions at its ends gives what a session does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import coreml_writer, onnx_writer
from tests.bundle.porting import (
    Ported,
    port_session,
    same_as_session,
    sends_every_dispatch_what_it_declares,
)
from tests.formats.coreml.test_images import image_output
from tests.helpers import shared_device, skip_without_half
from tests.onnx_writer import graph, node, value
from tests.openvino_writer import Net as OpenvinoNet
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net as TfliteNet

import vknn
from vknn.bundle.schema import PortElement
from vknn.graph import DType
from vknn.lowering import LoweringOptions
from vknn.plan import Copy, Role

pytestmark = pytest.mark.device
RNG = np.random.default_rng(3)
#: Of Core ML; a copy would be no step of a plan.
LEAKY = coreml_writer.layer("activation", leakyReLU={"alpha": 0.5})


def onnx(folder: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], **t: Any) -> Any:
    message = onnx_writer.model(graph(nodes, inputs, outputs, t))
    return vknn.Session(onnx_writer.save(message, folder), device=shared_device())


def checked(session: vknn.Session, feeds: dict[str, Any], **options: Any) -> Ported:
    made = port_session(session, feeds, **options)
    same_as_session(session, feeds, made)
    sends_every_dispatch_what_it_declares(made)
    return made


def test_where_user_and_graph_agree_nothing_is_added(tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=shared_device()) as session:
        made = checked(session, {"data": RNG.standard_normal(SHAPE).astype("f4")})
    assert made.conversions == []
    assert len(made.result.plan.steps) == made.steps
    assert made.port("data").form.dims == SHAPE
    assert (made.port("data").layout, made.port("out").layout) == ("CHW", "W")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_floats_of_16_bits_are_converted(tmp_path: Path, precision: str) -> None:
    skip_without_half()
    path = write_small_model(tmp_path)
    with vknn.Session(path, device=shared_device(), precision=precision) as session:
        made = checked(session, {"data": RNG.standard_normal(SHAPE).astype("f4")})
    assert made.conversions == ["input data", "output out"]
    assert made.port("out").form.element is PortElement.FLOAT32


def quantized(dtype: str = "int8") -> bytes:
    net = TfliteNet()
    x = net.tensor("x", (1, 5, 7, 3), dtype, scale=0.5, zero_point=-3)
    y = net.tensor("y", (1, 5, 7, 3), dtype, scale=0.5, zero_point=-3)
    net.add("RELU", [x], [y])
    net.inputs, net.outputs = [x], [y]
    return net.file()


def test_bytes_go_up_as_bytes() -> None:
    with vknn.Session(quantized(), device=shared_device()) as session:
        made = checked(session, {"x": RNG.integers(-128, 128, (1, 5, 7, 3), "i1")})
    assert made.conversions == ["input x", "output y"]
    buffers = made.result.plan.buffers
    assert buffers[made.port("x").buffer].nbytes == 112  # 105, in whole vec4s of words
    assert made.result.plan.arenas[Role.INPUT] == 112
    assert made.port("x").quantization == made.port("y").quantization == (0.5, -3)
    assert made.port("x").layout == "NHWC"


def test_a_last_cast_to_int64_is_the_ports(tmp_path: Path) -> None:
    nodes = [node("ArgMax", "x", "a", axis=1), node("Cast", "x", "b", to=7)]
    outputs = [value("a", (2, 1), DType.INT64), value("b", (2, 3), DType.INT64)]
    feeds = {"x": np.float32([[1.5, -2.5, np.nan], [1e30, -1e30, 3e9]])}
    with onnx(tmp_path, nodes, [value("x")], outputs) as session:
        made = checked(session, feeds)
    assert made.conversions == ["output a", "output b"]


def test_a_cast_to_int64_before_moves_is_the_ports(tmp_path: Path) -> None:
    nodes = [
        node("Cast", "x", "long", to=7),
        node("Transpose", "long", "turned", perm=[1, 0]),
        node("Reshape", "turned shape", "y"),
    ]
    tensors = {"shape": np.array([1, 6])}
    outputs = [value("y", (1, 6), DType.INT64)]
    with onnx(tmp_path, nodes, [value("x")], outputs, **tensors) as session:
        made = checked(session, {"x": np.float32([[1.5, 2.5, 3], [-4, 5, 6]])})
    assert made.conversions == ["output y"]


def test_an_int64_input_is_narrowed(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "f", to=1), node("Cast", "x", "i", to=6), node("Neg", "i", "y")]
    outputs = [value("f", (2, 3)), value("y", (2, 3), DType.INT32)]
    with onnx(tmp_path, nodes, [value("x", (2, 3), DType.INT64)], outputs) as session:
        made = checked(session, {"x": np.array([[-7, 1 << 30, 5], [0, -1, 3]])})
    assert made.conversions == ["input x"]
    assert made.port("x").form.element is PortElement.INT64


@pytest.mark.parametrize("dtype", [DType.UINT32, DType.INT64, DType.UINT64])
def test_an_input_that_all_read_as_floats_is_one(dtype: DType, tmp_path: Path) -> None:
    """No number is cut to 32 bits with a sign on the way."""
    nodes = [node("Cast", "x", "f", to=1), node("Neg", "f", "y")]
    outputs = [value("f", (2, 3)), value("y", (2, 3))]
    wide = 0 if dtype is DType.UINT32 else 1 << 40
    numbers = [[3_000_000_000, 1 << 31, 5], [0, (1 << 32) - 1, 7 + wide]]
    with onnx(tmp_path, nodes, [value("x", (2, 3), dtype)], outputs) as session:
        made = checked(session, {"x": np.array(numbers, dtype.numpy)})
    assert "input x" in made.conversions
    assert made.port("x").form.dtype == dtype.numpy


def test_a_uint32_input_that_is_read_as_integers(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "i", to=6), node("Neg", "i", "y"), node("Cast", "x", "b", to=2)]
    outputs = [value("y", (2, 3), DType.INT32), value("b", (2, 3), DType.UINT8)]
    with onnx(tmp_path, nodes, [value("x", (2, 3), DType.UINT32)], outputs) as session:
        feeds = {"x": np.uint32([[3_000_000_000, 1 << 31, 5], [0, (1 << 32) - 1, 700]])}
        made = checked(session, feeds)
    assert made.conversions == ["output b"]


def test_inputs_and_constants_that_are_outputs(tmp_path: Path) -> None:
    """An input that nobody reads, one that is an output, too, and constants."""
    nodes = [
        node("Neg", "x", "y"),
        node("Identity", "b", "same"),
        node("Identity", "table", "fixed"),
        node("Identity", "y", "again"),
    ]
    inputs = [value("x"), value("b", (3,), DType.UINT8), value("idle", (5,), DType.INT64)]
    outputs = [value("y"), value("same", (3,), DType.UINT8), value("fixed", (2,), DType.INT64)]
    outputs.append(value("again"))
    feeds = {
        "x": RNG.standard_normal((2, 3)).astype("f4"),
        "b": np.uint8([1, 200, 3]),
        "idle": np.arange(5),
    }
    tensors = {"table": np.array([1 << 40, -2])}
    with onnx(tmp_path, nodes, inputs, outputs, **tensors) as session:
        made = checked(session, feeds)
    assert made.inputs == ["x", "b", "idle"]
    assert made.conversions == []
    assert sum(isinstance(s, Copy) for s in made.result.plan.steps) == 2


def test_truth_values_are_bytes(tmp_path: Path) -> None:
    nodes = [node("Greater", "x zero", "above"), node("And", "above mask", "y")]
    inputs = [value("x"), value("mask", (2, 3), DType.BOOL)]
    feeds = {"x": RNG.standard_normal((2, 3)).astype("f4"), "mask": RNG.random((2, 3)) > 0.5}
    tensors = {"zero": np.float32(0)}
    with onnx(tmp_path, nodes, inputs, [value("y", (2, 3), DType.BOOL)], **tensors) as session:
        made = checked(session, feeds)
    assert made.conversions == ["input mask", "output y"]


def test_an_output_whose_size_data_decide() -> None:
    net = TfliteNet()
    x, y = (
        net.tensor("x", (2, 7), "bool"),
        net.tensor("y", (14, 2), "int64", shape_signature=[-1, 2]),
    )
    net.add("WHERE", [x], [y])
    net.inputs, net.outputs = [x], [y]
    with vknn.Session(net.file(), device=shared_device()) as session:
        made = checked(session, {"x": RNG.random((2, 7)) > 0.5})
    port = made.port("y")
    assert (port.form.dims, port.form.open_axis) == ((14, 2), 0)
    assert port.count is not None
    assert port.form.element is PortElement.INT64


def test_what_the_plan_does_not_make_is_named(tmp_path: Path) -> None:
    """A transpose behind a size that data decide is no part of the first plan."""
    nodes = [node("Neg", "x", "n"), node("NonZero", "n", "y")]
    outputs = [value("y", (1, None), DType.INT64)]
    feeds = {"x": np.float32([0, 3, 0, 5, 7, 0, 0])}
    with onnx(tmp_path, nodes, [value("x", (7,))], outputs) as session:
        with pytest.raises(vknn.ExportError, match=r"output 'y' is not made .*\(--outputs\)"):
            port_session(session, feeds)
        made = port_session(session, feeds, blobs=["n"])
    assert np.array_equal(made.run(feeds)["n"], -feeds["x"])


@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAYSCALE"])
def test_pictures_of_core_ml(color: str) -> None:
    planes = 1 if color == "GRAYSCALE" else 3
    x = RNG.uniform(-20, 280, (planes, 3, 4)).astype("f4")
    x[0, 0, :3] = np.nan, np.inf, 0.5
    message = image_output(color, x.shape)
    message.neuralNetwork.layers[0].CopyFrom(LEAKY)
    with coreml_writer.session(message, shared_device()) as session:
        made = checked(session, {"x": x})
    assert made.conversions == ["output y"]
    gray = color == "GRAYSCALE"
    assert (made.port("y").picture, made.port("y").layout) == (
        ("GRAY", "HW") if gray else ("RGB", "HWC")
    )


@pytest.mark.parametrize("kind", ["doubleType", "int64Type"])
def test_numbers_of_core_ml(kind: str) -> None:
    message = coreml_writer.model([LEAKY], {"x": (1,)}, [])
    feature = message.description.output.add(name="y")
    getattr(feature.type, kind).SetInParent()
    with coreml_writer.session(message, shared_device()) as session:
        for number in (-2.5, 1e-40, 3.5, 12345.678):
            feeds = {"x": np.float32([number])}
            made = checked(session, feeds)
    assert made.conversions == ["output y"]
    assert made.port("y").form.dims == ()


@pytest.mark.parametrize("labels", [["cat", "dög", "owl"], [3, -5, 7]])
def test_a_classifier_is_its_scores_with_labels(labels: list[Any]) -> None:
    layers = [coreml_writer.layer("softmaxND", outputs=("p",), axis=-1)]
    message = coreml_writer.model(layers, {"x": (3,)}, [], kind="neuralNetworkClassifier")
    text = isinstance(labels[0], str)
    field = "stringClassLabels" if text else "int64ClassLabels"
    getattr(message.neuralNetworkClassifier, field).vector.extend(labels)
    label = message.description.output.add(name="best")
    getattr(label.type, "stringType" if text else "int64Type").SetInParent()
    scores = message.description.output.add(name="scores")
    scores.type.dictionaryType.SetInParent()
    message.description.predictedFeatureName = "best"
    message.description.predictedProbabilitiesName = "scores"
    with coreml_writer.session(message, shared_device()) as session:
        made = checked(session, {"x": np.float32([1, 3, 2])})
    (port,) = made.result.ports[1:]
    assert (port.name, port.labels) == ("scores", tuple(map(str, labels)))


def test_numbers_of_openvino(tmp_path: Path) -> None:
    net = OpenvinoNet()
    x = net.input("x", (1, 3, 2, 5), "U8")
    net.layer("ReLU", [x], [(1, 3, 2, 5)], name="y")
    session = vknn.Session(net.save(tmp_path), device=shared_device())
    with session:
        made = checked(session, {"x": RNG.integers(0, 256, (1, 3, 2, 5), "u1")})
    assert made.port("x").form.element is PortElement.UINT8
    assert made.port("x").layout == "NCHW"


def test_blobs_are_outputs_as_others_are(tmp_path: Path) -> None:
    """Of what is cut off (--outputs), in the words of the format."""
    net = OpenvinoNet()
    x = net.input("x", (1, 3, 2, 5))
    (inner,) = net.layer("ReLU", [x], [(1, 3, 2, 5)], name="inner")
    net.layer("Sigmoid", [inner], [(1, 3, 2, 5)], name="y")
    with vknn.Session(net.save(tmp_path), device=shared_device()) as session:
        feeds = {"x": RNG.standard_normal((1, 3, 2, 5)).astype("f4")}
        made = port_session(session, feeds, blobs=["inner"])
    assert np.array_equal(made.run(feeds)["inner"], np.maximum(feeds["x"], 0))
    assert [p.name for p in made.result.ports] == ["x", "inner"]


def test_guards_go_along(tmp_path: Path) -> None:
    """Bytes behind every buffer that nothing may write, those that moved among them."""
    with vknn.Session(quantized(), device=shared_device()) as session:
        feeds = {"x": RNG.integers(-128, 128, (1, 5, 7, 3), "i1")}
        made = port_session(session, feeds, options=LoweringOptions(guard=64))
        plain = port_session(session, feeds)
    assert not plain.result.plan.guards
    plan = made.result.plan
    assert {g.role for g in plan.guards} == {Role.ACTIVATION}
    for guard in plan.guards:
        assert guard.offset + guard.nbytes <= plan.arenas[guard.role]
        for buffer in plan.buffers:
            apart = buffer.offset + buffer.nbytes <= guard.offset
            apart |= guard.offset + guard.nbytes <= buffer.offset
            assert buffer.role is not guard.role or apart


def test_what_is_too_large_is_named() -> None:
    limits = dataclasses.replace(shared_device().limits, max_storage_buffer_range=400)
    with vknn.Session(quantized(), device=shared_device()) as session:
        feeds = {"x": RNG.integers(-128, 128, (1, 5, 7, 3), "i1")}
        made = port_session(session, feeds)
        from vknn.bundle.ports import ported

        with pytest.raises(vknn.ExportError) as raised:
            ported(made.model, made.graph, _plan_of(session, feeds), limits)
    assert len(raised.value.reasons) == 2
    assert "input 'x' of 105 elements takes 432 bytes" in raised.value.reasons[0]
    assert "output 'y'" in raised.value.reasons[1]


def _plan_of(session: vknn.Session, feeds: dict[str, Any]) -> Any:
    from vknn.session import engine_of

    (plan,) = engine_of(session).program(feeds).plans
    return plan


def test_a_sequence_is_no_port(tmp_path: Path) -> None:
    nodes = [node("ConcatFromSequence", "s", "y", axis=0)]
    message = onnx_writer.model(graph(nodes, [onnx_writer.sequence("s")], [value("y", None)]))
    with vknn.Session(onnx_writer.save(message, tmp_path), device=shared_device()) as session:
        from vknn.bundle.ports import ported
        from vknn.session import engine_of

        feeds = {"s": [np.zeros((2, 3), "f4"), np.ones((1, 3), "f4")]}
        program = engine_of(session).program(feeds)
        (plan,) = program.plans
        with pytest.raises(vknn.ExportError, match=r"input 's' is a sequence: make its elements"):
            ported(session.model, program.graph, plan, shared_device().limits)


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint16"])
def test_nan_is_what_the_format_makes_of_it(dtype: str, tmp_path: Path) -> None:
    """In TensorFlow Lite the largest number, in ONNX 0; the cast is the port's."""
    given = np.float32([np.nan, -np.nan, np.inf, -np.inf, 3e18, -1e30, 1.9, -0.0])
    net, types = TfliteNet(), ("float32", "float32", dtype)
    x, z, y = (net.tensor(n, given.shape, t) for n, t in zip("xzy", types, strict=True))
    net.add("NEG", [x], [z])
    net.add("CAST", [z], [y])
    net.inputs, net.outputs = [x], [y]
    number = onnx_writer.BY_DTYPE[DType(dtype)].number
    nodes = [node("Neg", "x", "z"), node("Cast", "z", "y", to=number)]
    cast = onnx_writer.model(graph(nodes, [value("x", (8,))], [value("y", None)]))
    path = onnx_writer.save(cast, tmp_path)
    most = np.iinfo(dtype).max
    for source, right in ((net.file(), most), (path, 0)):
        with vknn.Session(source, device=shared_device()) as session:
            made = port_session(session, {"x": given})
            same_as_session(session, {"x": given}, made)
            assert made.run({"x": given})["y"].tolist()[:2] == [right, right]
