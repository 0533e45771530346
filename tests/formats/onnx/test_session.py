"""Sessions on ONNX models: names, dtypes and shapes as the file has them, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, simple, tensor, value

import vknn
from vknn import Session
from vknn.errors import InputError, ModelFormatError, ShapeError
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.graph import DType

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def opened(message: Any, folder: Path) -> Session:
    return Session(save(message, folder), device="numpy")


def test_names_shapes_and_dtypes(tmp_path: Path) -> None:
    inputs = [
        value("b", ("batch", 3, None), DType.INT64),
        value("a", None, DType.BOOL),
        value("t", (1,), DType.STRING),
    ]
    nodes = [node("Identity", n, o) for n, o in (("b", "q"), ("a", "p"), ("t", "u"))]
    outputs = [value("u", (1,), DType.STRING), value("q", None, DType.INT64), value("p", None)]
    with opened(model(graph(nodes, inputs, outputs)), tmp_path) as session:
        assert [s.name for s in session.inputs] == ["b", "a", "t"]
        assert session.inputs[0].shape == ("batch", 3, None)
        assert session.inputs[0].sizes == (None, 3, None)
        assert session.inputs[1].shape is None
        assert [s.name for s in session.outputs] == ["u", "q", "p"]
        for size in (2, 5, 0):
            given = np.zeros((size, 3, 1), np.int64) - (1 << 40)
            found = session.run({"b": given, "a": np.array(True), "t": np.array(["né"], object)})
            assert list(found) == ["u", "q", "p"]
            assert found["q"].dtype == np.int64 and np.array_equal(found["q"], given)
            assert found["p"].shape == () and found["p"].dtype == bool
            assert found["u"].dtype == object and found["u"].tolist() == ["né"]


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        ({}, "missing input 'x'"),
        ({"x": X, "z": X}, "unknown input 'z'"),
        ({"x": X, 1: X}, "unknown input 1"),
        ({"x": X.astype(np.float64)}, "'x' takes float32, not float64"),
        ({"x": X.astype(np.int32)}, "'x' takes float32"),
        ({"x": X[0]}, "'x' has the shape"),
        ({"x": X[:, :2]}, "'x' has the shape"),
    ],
)
def test_inputs_that_do_not_fit(feeds: dict[str, Any], text: str, tmp_path: Path) -> None:
    with (
        opened(simple(node("Relu", "x")), tmp_path) as session,
        pytest.raises(InputError, match=text),
    ):
        session.run(feeds)


def test_hints_are_shapes_to_try(tmp_path: Path) -> None:
    """The shape where nothing is free, as other formats have it; else with a batch of one."""
    shapes = {"a": (2, 3), "b": (), "c": ("n", 3), "d": (None, 3), "e": ("n", "m"), "f": None}
    body = graph(
        [node("Identity", name, f"{name}_") for name in shapes],
        [value(name, shape) for name, shape in shapes.items()],
        [value(f"{name}_", None) for name in shapes],
    )
    with opened(model(body), tmp_path) as session:
        assert {s.name: s.hint for s in session.inputs} == {
            "a": (2, 3), "b": (), "c": (1, 3), "d": (1, 3), "e": None, "f": None,
        }  # fmt: skip


def test_numbers_of_pythons_have_no_dtype_to_keep(tmp_path: Path) -> None:
    body = graph(
        [node("Relu", "x", "y"), node("Identity", "k", "l")],
        [value("x", (1, 3)), value("k", (2,), DType.INT8)],
        [value("y", (1, 3)), value("l", (2,), DType.INT8)],
    )
    with opened(model(body), tmp_path) as session:
        found = session.run({"x": [[1.5, -2, 3]], "k": (1, -128)})
        assert found["y"].tolist() == [[1.5, 0, 3]] and found["l"].tolist() == [1, -128]
        with pytest.raises(InputError, match="'k' takes int8, not int64"):
            session.run({"x": [[1, 2, 3]], "k": (1, -129)})
        with pytest.raises(InputError, match="'k' takes int8, not float64"):
            session.run({"x": [[1, 2, 3]], "k": (1, 2.5)})
        with pytest.raises(InputError, match="'x' takes float32, not float64"):
            session.run({"x": [np.zeros(3)], "k": (1, 2)})


def test_wrong_sizes_of_free_axes_are_told_at_the_input(tmp_path: Path) -> None:
    body = graph(
        [node("MatMul", "x w", "t"), node("Relu", "t", "y")],
        [value("x", ("n", "m"))],
        [value("y", None)],
        {"w": X.T},
    )
    with opened(model(body), tmp_path) as session:
        assert session.run({"x": X})["y"].shape == (2, 2)
        text = r"input 'x' has the shape \(2, 5\): .*MatMul"
        with pytest.raises(InputError, match=text) as caught:
            session.run({"x": np.zeros((2, 5), np.float32)})
        assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_initializers_that_are_inputs(tmp_path: Path) -> None:
    body = graph([node("Add", "x w")], [value("x"), value("w", (3,))], [value("y")], {"w": X[0]})
    with opened(model(body, opset=8, ir=3), tmp_path) as session:
        assert [s.name for s in session.inputs] == ["x"]
        assert np.array_equal(session.run({"x": X})["y"], X + X[0])
        with pytest.raises(InputError, match="unknown input 'w'"):
            session.run({"x": X, "w": X[0]})
    with opened(model(body, ir=4), tmp_path) as session:
        assert [s.name for s in session.inputs] == ["x"]
        assert np.array_equal(session.run({"x": X})["y"], X + X[0])
        assert np.array_equal(session.run({"w": X[1], "x": X})["y"], X + X[1])
        assert np.array_equal(session.run({"x": X})["y"], X + X[0])


def test_outputs_that_nothing_computes(tmp_path: Path) -> None:
    outputs = [value("w", (3,)), value("x"), value("y")]
    nodes = [node("Neg", "x"), node("Abs", "x", "dead")]
    body = graph(nodes, [value("x"), value("unused", (1,))], outputs, {"w": X[0]})
    with opened(model(body), tmp_path) as session:
        found = session.run({"x": X, "unused": np.ones(1, np.float32)})
    assert list(found) == ["w", "x", "y"]
    assert np.array_equal(found["w"], X[0]) and np.array_equal(found["x"], X)


def test_an_operator_means_what_its_opset_says(tmp_path: Path) -> None:
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    powers = np.exp(cube)
    wanted = {12: powers / powers.sum((1, 2), keepdims=True), 13: powers / powers.sum(2)[..., None]}
    for opset, expected in wanted.items():
        body = graph([node("Softmax", "x")], [value("x", (2, 3, 4))], [value("y", None)])
        with opened(model(body, opset), tmp_path) as session:
            assert np.allclose(session.run({"x": cube})["y"], expected, atol=1e-6)
    legacy = simple(node("Add", "x w", broadcast=1, axis=0), opset=6, w=np.float32([10, 20]))
    with opened(legacy, tmp_path) as session:
        assert np.array_equal(session.run({"x": X})["y"], X + np.float32([[10], [20]]))
    with (
        pytest.raises(ShapeError, match="broadcast"),
        opened(
            simple(node("Add", "x w"), opset=6, w=np.float32([10, 20, 30])), tmp_path
        ) as session,
    ):
        session.run({"x": X})


def _shape_arithmetic() -> Any:
    """x [n, c, h, w] flattened and resized as exporters write it."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n zeros", "n1"), node("Concat", "n1 minus", "flat", axis=0),
        node("Reshape", "x flat", "y"),
        node("Slice", "s two four", "hw"), node("Cast", "hw", "hwf", to=1),
        node("Mul", "hwf half", "h2"), node("Floor", "h2", "h3"), node("Cast", "h3", "h4", to=7),
        node("Slice", "s zeros two", "nc"), node("Concat", "nc h4", "sizes", axis=0),
        node("Resize", "x - - sizes", "z", mode="linear"),
        node("Equal", "sizes minus4", "eq"),
        node("ConstantOfShape", "four", "ones", value=np.int64([1])),
        node("Where", "eq ones sizes", "wh"), node("Expand", "one wh", "e"),
        node("Range", "zero n step", "r"),
    ]  # fmt: skip
    numbers = {
        "zero": np.int64(0), "zeros": np.int64([0]), "minus": np.int64([-1]), "two": np.int64([2]),
        "four": np.int64([4]), "half": np.float32([1.5]), "minus4": np.int64([-1] * 4),
        "one": np.float32(1), "step": np.int64(1),
    }  # fmt: skip
    outputs = [value("y", None), value("z", None), value("e", None), value("r", None, DType.INT64)]
    return model(graph(nodes, [value("x", ("n", 3, "h", "w"))], outputs, numbers))


def test_shape_arithmetic_is_folded(tmp_path: Path) -> None:
    with opened(_shape_arithmetic(), tmp_path) as session:
        for dims in ((2, 3, 5, 7), (1, 3, 4, 4)):
            x = np.random.default_rng(1).standard_normal(dims).astype(np.float32)
            found = session.run({"x": x})
            big = (*dims[:2], dims[2] * 3 // 2, dims[3] * 3 // 2)
            assert np.array_equal(found["y"], x.reshape(dims[0], -1))
            assert found["z"].shape == found["e"].shape == big
            assert found["r"].tolist() == list(range(dims[0]))
            types = {n.op.type_name for n in session._engine.graph({"x": x}).nodes}
            assert types <= {"Reshape", "Resize", "Expand"}
            assert session._engine.graph({"x": x}).continuation is None


def test_shapes_that_are_data(tmp_path: Path) -> None:
    nodes = [node("Add", "s one", "t"), node("Reshape", "x t", "r"), node("Relu", "r")]
    body = graph(nodes, [value("x"), value("s", (1,), DType.INT64)], [value("y", None)],
                 {"one": np.int64([1])})  # fmt: skip
    with opened(model(body), tmp_path) as session:
        for _ in range(2):
            assert session.run({"x": X, "s": np.int64([5])})["y"].shape == (6,)
        with pytest.raises(ShapeError, match="does not fill"):
            session.run({"x": X, "s": np.int64([6])})
        assert session.run({"x": X, "s": np.int64([5])})["y"].shape == (6,)


def test_indices_out_of_range_are_errors(tmp_path: Path) -> None:
    body = graph([node("Gather", "x i")], [value("x"), value("i", None, DType.INT64)],
                 [value("y", None)])  # fmt: skip
    with opened(model(body), tmp_path) as session:
        assert np.array_equal(session.run({"x": X, "i": np.int64(-1)})["y"], X[-1])
        for index in (2, -3, 1 << 40):
            with pytest.raises(ShapeError, match="out of range"):
                session.run({"x": X, "i": np.int64([index])})


def _function(name: str, *nodes: Any, inputs: str = "x", outputs: str = "y") -> Any:
    found = pb.Function(name=name, domain="my", node=nodes)
    found.input.extend(inputs.split())
    found.output.extend(outputs.split())
    found.opset_import.add(domain="", version=21)
    found.opset_import.add(domain="my", version=1)
    return found


def test_functions_are_expanded(tmp_path: Path) -> None:
    inner = _function("Twice", node("Add", "x x", "t"), node("Identity", "t", "y"))
    outer = _function("Outer", node("Twice", "x", "t", domain="my"), node("LeakyRelu", "t", "y"))
    outer.node[1].attribute.append(pb.Attribute(name="alpha", type=1, ref_attr_name="slope"))
    outer.attribute_proto.append(pb.Attribute(name="slope", type=1, f=0.5))
    body = graph(
        [node("Outer", "x", "t", domain="my"), node("Outer", "t", "y", domain="my", slope=0.25)],
        [value("x")], [value("y")],
    )  # fmt: skip
    with opened(model(body, functions=[outer, inner]), tmp_path) as session:
        assert np.array_equal(
            session.run({"x": -X})["y"], np.where(X > 0, -X * 2 * 0.5 * 2 * 0.25, 0)
        )


def test_functions_without_end(tmp_path: Path) -> None:
    body = graph([node("F0", "x", "y", domain="my")], [value("x")], [value("y")])
    loop = _function("F0", node("F0", "x", "y", domain="my"))
    with pytest.raises(ModelFormatError, match="circle"):
        opened(model(body, functions=[loop]), tmp_path)
    growing = [
        _function(f"F{i}", *(node(f"F{i + 1}", "x", f"t{k}", domain="my") for k in range(10)),
                  outputs="t0")
        for i in range(9)
    ]  # fmt: skip
    growing.append(_function("F9", node("Relu", "x", "y")))
    with pytest.raises(ModelFormatError, match="more than 200000 nodes"):
        opened(model(body, functions=growing), tmp_path)


def test_branches_and_loops_on_data(tmp_path: Path) -> None:
    then = graph([node("Mul", "x x", "z")], outputs=[value("z", None)])
    other = graph([node("ReduceSum", "x", "z")], outputs=[value("z", None)])
    branch = node("If", "c", then_branch=then, else_branch=other)
    body = graph([branch], [value("x"), value("c", (), DType.BOOL)], [value("y", None)])
    with opened(model(body), tmp_path) as session:
        for _ in range(2):
            assert np.array_equal(session.run({"x": X, "c": np.array(True)})["y"], X * X)
            assert session.run({"x": X, "c": np.array(False)})["y"].tolist() == [[15]]
    round_ = graph(
        [node("Add", "v v", "w"), node("ReduceMax", "w", "m", keepdims=0),
         node("Less", "m most", "go"), node("Identity", "w", "s")],
        [value("i", (), DType.INT64), value("c", (), DType.BOOL), value("v")],
        [value("go", (), DType.BOOL), value("w"), value("s")],
    )  # fmt: skip
    nodes = [node("Loop", "- t x", "y all", body=round_)]
    body = graph(nodes, [value("x")], [value("y", None), value("all", None)],
                 {"t": np.array(True), "most": np.float32(30)})  # fmt: skip
    with opened(model(body), tmp_path) as session:
        for factor in (1, 2):
            found = session.run({"x": X * factor})
            rounds = 3 if factor == 1 else 2
            assert np.array_equal(found["y"], X * factor * 2**rounds)
            assert found["all"].shape == (rounds, 2, 3)


SCALED = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
OUTPUT1F(1, y);
layout(push_constant) uniform P { int count; float by; } p;
void main() {
    int i = linear_lane();
    if (i < p.count) STORE1(y, i, LOAD1(x, i) * p.by);
}
"""


@pytest.fixture
def scaled() -> Iterator[None]:
    """An operator of a user's own, with a kernel."""
    vknn.register_layer(
        "onnx", "my.own::Scaled", shape=lambda shapes, options: shapes[0],
        compute=lambda arrays, weights, options: arrays[0] * np.float32(options["by"]),
        parameters={"by": ("by", 1.0)},
        shader=vknn.Shader(SCALED, push=lambda i, o, options: [math.prod(o[0]), options["by"]]),
    )  # fmt: skip
    yield
    vknn.unregister_layer("onnx", "my.own::Scaled")


@pytest.mark.parametrize("where", ["graph", "branch", "function"])
@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_custom_operators(device: str, where: str, scaled: None, tmp_path: Path) -> None:
    own, functions = node("Scaled", "x", "y", domain="my.own", by=3.0), []
    if where == "branch":
        inner = node("Scaled", "x", "z", domain="my.own", by=3.0)
        then = graph([inner], outputs=[value("z", None)])
        other = graph([node("Neg", "x", "z")], outputs=[value("z", None)])
        own = node("If", "c", then_branch=then, else_branch=other)
    elif where == "function":
        functions = [_function("Outer", node("Scaled", "x", "y", domain="my.own"))]
        functions[0].node[0].attribute.append(pb.Attribute(name="by", type=1, ref_attr_name="k"))
        functions[0].attribute.append("k")
        functions[0].opset_import.add(domain="my.own", version=1)
        own = node("Outer", "x", domain="my", k=3.0)
    body = graph([own], [value("x")], [value("y", None)], {"c": np.array(True)})
    message = model(body, functions=functions)
    message.opset_import.add(domain="my.own", version=1)
    with Session(save(message, tmp_path), device=device) as session:
        assert np.array_equal(session.run({"x": X})["y"], X * 3)
        (side,) = session.placement.values()
        assert side == ("host" if device == "numpy" else "vulkan")


def test_bfloat16_in_and_out(tmp_path: Path) -> None:
    import ml_dtypes

    body = graph([node("Mul", "x w")], [value("x", (3,), DType.BFLOAT16)],
                 [value("y", (3,), DType.BFLOAT16)])  # fmt: skip
    body.initializer.append(tensor("w", np.array([3, 3, 3]).astype(ml_dtypes.bfloat16)))
    x = np.array([1.0, 2.5, 257.0]).astype(ml_dtypes.bfloat16)
    with opened(model(body), tmp_path) as session:
        found = session.run({"x": x})["y"]
    assert found.dtype == ml_dtypes.bfloat16
    assert np.array_equal(found, (x.astype(np.float32) * 3).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_more_axes_than_numpy_has(device: str, tmp_path: Path) -> None:
    made = simple(node("Unsqueeze", "x a"), a=np.arange(200))
    with (
        Session(save(made, tmp_path), device=device) as session,
        pytest.raises(ShapeError, match=r"model\.onnx: .*'y' .*: its output has 202 axes"),
    ):
        session.run({"x": np.ones((2, 3), np.float32)})
