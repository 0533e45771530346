"""Inputs and outputs: shapes, mappings, defaults, numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import array_feature, layer, model, network, run, session, weights
from tests.helpers import shared_device

from vknn.errors import InputError, ModelFormatError, ShapeError, VknnError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.graph import DType

RNG = np.random.default_rng(3)


def copying(shape: tuple[int, ...], rank5: bool = False) -> Any:
    return model([layer("copy")], {"x": shape}, rank5=rank5)


def answer(message: Any, x: Any, **others: Any) -> np.ndarray:
    with session(message) as s:
        return s.run({"x": x, **others})["y"]


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (2, 3, 4, 5), (1, 2, 1, 2, 1, 2)])
def test_exact_mapping_keeps_the_shape(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    y = answer(copying(shape), x)
    assert y.shape == shape
    assert np.array_equal(y, x)


@pytest.mark.parametrize(
    "declared, given, blob",
    [
        ((3,), (3,), (1, 1, 3, 1, 1)),
        ((3,), (3, 1, 1), (1, 1, 3, 1, 1)),
        ((3,), (4, 2, 3, 1, 1), (4, 2, 3, 1, 1)),
        ((2, 3, 4), (2, 3, 4), (1, 1, 2, 3, 4)),
        ((2, 3, 4), (5, 1, 2, 3, 4), (5, 1, 2, 3, 4)),
        ((2, 1, 3, 4, 5), (2, 1, 3, 4, 5), (2, 1, 3, 4, 5)),
        ((), (6,), (1, 1, 6, 1, 1)),
    ],
)
def test_rank_5_mapping(
    declared: tuple[int, ...], given: tuple[int, ...], blob: tuple[int, ...]
) -> None:
    x = RNG.standard_normal(given).astype(np.float32)
    y = answer(copying(declared, rank5=True), x)
    assert y.shape == blob
    assert np.array_equal(y.reshape(-1), x.reshape(-1))


@pytest.mark.parametrize(
    "declared, given",
    [((3,), (4,)), ((3,), (1, 3)), ((3,), (1, 1, 3)), ((3,), (2, 1, 4, 1, 1)), ((3,), (3, 2, 1)),
     ((2, 3, 4), (2, 4, 3)), ((2, 3, 4), (24,)), ((2, 3, 4), (1, 2, 3, 4)),
     ((2, 3, 4), (1, 1, 4, 3, 2))],
)  # fmt: skip
def test_rank_5_mapping_refuses(declared: tuple[int, ...], given: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="'x'"):
        answer(copying(declared, rank5=True), np.zeros(given))


@pytest.mark.parametrize("given", [(2,), (3, 2), (1, 2, 3), (6,), (2, 4), ()])
def test_exact_mapping_refuses(given: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"'x'.*\[2, 3\]"):
        answer(copying((2, 3)), np.zeros(given))


def test_a_single_number_for_one_element() -> None:
    assert answer(copying((1,)), 2.5).tolist() == [2.5]


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", ">f4"]
)
def test_any_numbers_will_do(dtype: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    y = answer(copying((2, 3)), x)
    assert y.dtype == np.float32
    assert np.array_equal(y, x.astype(np.float32))


def test_any_layout_will_do() -> None:
    x = RNG.standard_normal((3, 2)).astype(np.float32)
    assert np.array_equal(answer(copying((2, 3)), x.T), x.T)
    assert np.array_equal(answer(copying((2, 3)), np.asfortranarray(x.T)), x.T)
    assert np.array_equal(answer(copying((2, 3)), x.T[:, ::-1]), x.T[:, ::-1])
    assert answer(copying((2, 3)), x.T.tolist()).shape == (2, 3)


@pytest.mark.parametrize("bad", [np.array(["a", "b"]), np.array([1j]), np.array([None])])
def test_what_is_no_number(bad: np.ndarray) -> None:
    with pytest.raises(VknnError):
        answer(copying(bad.shape), bad)


def test_names_are_checked() -> None:
    with session(copying((2,))) as s:
        with pytest.raises(InputError, match=r"missing input 'x'.*unknown input 'z'"):
            s.run({"z": np.zeros(2)})
        with pytest.raises(InputError, match=r"unknown input 'z'"):
            s.run({"x": np.zeros(2), "z": np.zeros(2)})


def enumerated(shapes: list[tuple[int, ...]], rank5: bool = False) -> Any:
    message = copying(shapes[0], rank5)
    array = message.description.input[0].type.multiArrayType
    array.enumeratedShapes.shapes.extend(pb.ArrayFeatureType.Shape(shape=s) for s in shapes)
    return message


def ranged(declared: tuple[int, ...], ranges: list[tuple[int, int]], rank5: bool = False) -> Any:
    message = copying(declared, rank5)
    sizes = message.description.input[0].type.multiArrayType.shapeRange.sizeRanges
    sizes.extend(pb.SizeRange(lowerBound=a, upperBound=b) for a, b in ranges)
    return message


def test_enumerated_shapes() -> None:
    message = enumerated([(2, 3), (4, 3), (1, 7)])
    with session(message) as s:
        for shape in ((2, 3), (4, 3), (1, 7)):
            assert s.run({"x": np.ones(shape)})["y"].shape == shape
        for shape in ((3, 3), (4, 7), (2, 3, 1)):
            with pytest.raises(InputError, match=r"\[2, 3\] or \[4, 3\] or \[1, 7\]"):
                s.run({"x": np.ones(shape)})
        assert s.inputs[0].shape == (None, None)
        assert s.model.shape_hints == {"x": (2, 3)}


def test_ranges_of_shapes() -> None:
    with session(ranged((2, 3), [(1, 4), (3, -1)])) as s:
        assert s.inputs[0].shape == (None, None)
        for shape in ((1, 3), (4, 100), (2, 3)):
            assert s.run({"x": np.ones(shape)})["y"].shape == shape
        for shape in ((5, 3), (1, 2), (2,), (1, 1, 3), (0, 3)):
            with pytest.raises(InputError, match=r"1\.\.4, 3\.\.any"):
                s.run({"x": np.ones(shape)})


def test_ranges_in_rank_5() -> None:
    with session(ranged((3, 4, 5), [(3, 3), (1, 8), (1, 8)], rank5=True)) as s:
        assert s.inputs[0].shape == (3, None, None)
        assert s.run({"x": np.ones((3, 7, 8))})["y"].shape == (1, 1, 3, 7, 8)
        assert s.run({"x": np.ones((2, 1, 3, 7, 8))})["y"].shape == (2, 1, 3, 7, 8)
        for shape in ((3, 9, 8), (2, 1, 3, 9, 8), (2, 4, 5)):
            with pytest.raises(InputError):
                s.run({"x": np.ones(shape)})


def test_a_range_that_holds_nothing() -> None:
    with pytest.raises(ModelFormatError, match=r"'x'"):
        session(ranged((2,), [(5, 4)]))


def optional(field: str | None, value: float = 0) -> Any:
    message = model([layer("copy"), layer("copy", ["z"], ["w"], name="c2")], {"x": (2,), "z": (3,)},
                    ["y", "w"])  # fmt: skip
    feature = message.description.input[1].type
    feature.isOptional = True
    if field:
        setattr(feature.multiArrayType, field, value)
    return message


def test_flexible_shapes_without_a_default() -> None:
    """FeatureTypes.proto: it is the first of an enumeration, and the least of a range."""
    message = ranged((), [(3, 3), (2, 8), (4, -1)], rank5=True)
    with session(message) as s:
        assert s.inputs[0].shape == (3, None, None)
        assert s.model.shape_hints == {"x": (3, 2, 4)}
        assert s.run({"x": np.ones((3, 8, 9))})["y"].shape == (1, 1, 3, 8, 9)
        for shape in ((4, 8, 9), (3, 9, 9), (3,), (2, 1, 4, 8, 9)):
            with pytest.raises(InputError, match=r"\[3, 2\.\.8, 4\.\.any\]"):
                s.run({"x": np.ones(shape)})
    message = optional("intDefaultValue", 7)
    array = message.description.input[1].type.multiArrayType
    del array.shape[:]
    array.enumeratedShapes.shapes.extend(pb.ArrayFeatureType.Shape(shape=s) for s in ((2, 3), (4,)))
    with session(message) as s:
        assert s.model.shape_hints["z"] == (2, 3)
        assert s.run({"x": np.ones(2)})["w"].tolist() == [[7, 7, 7]] * 2
    with session(ranged((), [(0, 4), (3, -1)])) as s:
        assert s.model.shape_hints == {}  # none that a command could make an input of
        assert s.run({"x": np.ones((0, 3))})["y"].shape == (0, 3)


@pytest.mark.parametrize(
    "field, value",
    [(None, 0), ("intDefaultValue", 4), ("floatDefaultValue", -1.5), ("doubleDefaultValue", 2.25)],
)
def test_defaults_of_optional_inputs(field: str | None, value: float) -> None:
    with session(optional(field, value)) as s:
        made = s.run({"x": np.ones(2)})
        assert made["w"].tolist() == [value] * 3
        assert s.run({"x": np.ones(2), "z": np.arange(3)})["w"].tolist() == [0, 1, 2]
        with pytest.raises(InputError, match="'x'"):
            s.run({"z": np.ones(3)})


def test_defaults_of_absurd_size() -> None:
    message = optional(None)
    message.description.input[1].type.multiArrayType.shape[:] = [1 << 40, 1 << 40]
    with session(message) as s, pytest.raises(InputError, match="'z'"):
        s.run({"x": np.ones(2)})


@pytest.mark.parametrize("rank5", [False, True])
@pytest.mark.parametrize(
    "declared, shape",
    [((6,), (6,)), ((2, 3), (2, 3)), ((3, 1, 2), (3, 1, 2)), ((1, 6, 1, 1), (1, 6, 1, 1))],
)
def test_the_declared_shape_of_an_output(
    rank5: bool, declared: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    message = copying((6,) if rank5 else (2, 3), rank5)
    message.description.output[0].type.multiArrayType.shape.extend(declared)
    x = np.arange(6.0)
    y = answer(message, x if rank5 else x.reshape(2, 3))
    assert y.shape == shape
    assert y.reshape(-1).tolist() == x.tolist()


@pytest.mark.parametrize("declared", [(5,), (7,), (2, 2)])
def test_a_declared_shape_that_does_not_fit(declared: tuple[int, ...]) -> None:
    message = copying((2, 3))
    message.description.output[0].type.multiArrayType.shape.extend(declared)
    assert answer(message, np.zeros((2, 3))).shape == (2, 3)


def test_one_blob_under_two_names_and_an_input_as_output() -> None:
    message = model([layer("copy")], {"x": (2,)}, ["y", "x"])
    with session(message) as s:
        made = s.run({"x": [1, 2]})
    assert made["x"].tolist() == made["y"].tolist() == [1, 2]


def test_numbers_as_outputs() -> None:
    message = model([layer("copy")], {"x": (1,)}, ["y"], kind="neuralNetworkRegressor")
    message.description.predictedFeatureName = "y"
    message.description.output[0].type.doubleType.SetInParent()
    with session(message) as s:
        made = s.run({"x": [2.5]})["y"]
        assert made == 2.5
        assert isinstance(made, float)
    message.description.output[0].type.int64Type.SetInParent()
    with session(message) as s:
        made = s.run({"x": [3.0]})["y"]
        assert made == 3
        assert isinstance(made, int)
        assert s.outputs[0].dtype == DType.INT64
    message = model([layer("copy")], {"x": (2,)}, ["y"], kind="neuralNetworkRegressor")
    message.description.output[0].type.doubleType.SetInParent()
    with session(message) as s, pytest.raises(ShapeError, match="'y'"):
        s.run({"x": [1, 2]})


def test_a_regressor_whose_feature_is_no_blob() -> None:
    message = model([layer("copy")], {"x": (2,)}, ["price"], kind="neuralNetworkRegressor")
    message.description.predictedFeatureName = "price"
    with session(message) as s:
        assert s.run({"x": [1, 2]})["price"].tolist() == [1, 2]
    message.description.predictedFeatureName = ""
    with pytest.raises(ModelFormatError, match="'price'"):
        session(message)


@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_a_model_without_inputs(device: str) -> None:
    layers = [
        layer("loadConstantND", [], ["c"], shape=[2], data=weights([1, 2])),
        layer("addBroadcastable", ["c", "c"], ["y"]),
    ]
    where = device if device == "numpy" else shared_device()
    with session(model(layers, {}), where) as s:
        assert s.run({})["y"].tolist() == [2, 4]
    with session(model(layers, {}, ["c"]), where) as s:
        assert s.run({})["c"].tolist() == [1, 2]


def test_numbers_as_inputs() -> None:
    message = copying((1,))
    message.description.input[0].type.doubleType.SetInParent()
    with session(message) as s:
        assert s.run({"x": 4.5})["y"].tolist() == [4.5]


@pytest.mark.parametrize("kind", ["stringType", "dictionaryType", "sequenceType"])
def test_inputs_that_no_network_takes(kind: str) -> None:
    message = copying((1,))
    getattr(message.description.input[0].type, kind).SetInParent()
    with pytest.raises(VknnError, match=rf"'x' is of type {kind}"):
        session(message)


def test_outputs_that_no_network_gives() -> None:
    message = copying((1,))
    message.description.output[0].type.stringType.SetInParent()
    with pytest.raises(VknnError, match=r"'y' is of type stringType"):
        session(message)


def test_features_without_names_or_twice() -> None:
    message = copying((1,))
    message.description.input.append(array_feature("x", (1,)))
    with pytest.raises(ModelFormatError, match=r"two inputs called 'x'"):
        session(message)
    message = copying((1,))
    message.description.output.append(array_feature("", (1,)))
    with pytest.raises(ModelFormatError, match=r"no name"):
        session(message)
    message = copying((1,))
    del message.description.output[:]
    with pytest.raises(ModelFormatError, match=r"no outputs"):
        session(message)


def test_an_output_that_nothing_makes() -> None:
    message = model([layer("copy")], {"x": (1,)}, ["nothing"])
    with pytest.raises(ModelFormatError, match=r"no layer makes 'nothing'"):
        session(message)


def test_blobs_that_nothing_makes() -> None:
    layers = [layer("copy", ["z"], ["y"]), layer("copy", ["x"], ["z"], name="late")]
    with pytest.raises(ModelFormatError, match=r"'copy'.*reads 'z'"):
        session(model(layers, {"x": (1,)}))
    circle = [layer("copy", ["b"], ["a"], name="one"), layer("copy", ["a"], ["b"], name="two")]
    with pytest.raises(ModelFormatError, match=r"reads 'b'"):
        session(model([*circle, layer("copy", ["a"], ["y"])], {"x": (1,)}))


def test_blobs_that_are_made_twice() -> None:
    one = layer("copy", ["x"], ["y"])
    assert run([one, layer("copy", ["x"], ["y"], name="again")], {"x": np.ones(2)})
    twice = [layer("copy", ["x"], ["y"]), layer("getShape", ["x"], ["y"])]
    with pytest.raises(VknnError):
        session(model(twice, {"x": (1,)}))


def test_wrong_arity() -> None:
    for bad in (layer("copy", [], ["y"]), layer("copy", ["x", "x"], ["y"]),
                layer("copy", ["x"], ["y", "z"])):  # fmt: skip
        with pytest.raises(ModelFormatError, match=r"'copy'.*takes 1"):
            session(model([bad], {"x": (1,)}))


def test_layers_without_a_type() -> None:
    bare = pb.NeuralNetworkLayer(name="odd", input=["x"], output=["y"])
    with pytest.raises(ModelFormatError, match=r"'odd'"):
        session(model([bare], {"x": (1,)}))


def test_networks_nested_too_deep() -> None:
    inner = layer("copy", ["x"], ["y"])
    for _ in range(24):
        inner = layer("branch", ["x"], [], ifBranch=network([inner]))
    with pytest.raises(VknnError):
        session(model([inner], {"x": (1,)}))
