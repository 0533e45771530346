"""The model: names, ranks and dtypes at its edges, and errors that name the layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import SMALL, build, net, run, write

from vknn import formats
from vknn.errors import InputError, ShapeError
from vknn.formats import Model
from vknn.formats.ncnn import context
from vknn.formats.ncnn.layers.movement import shape as movement
from vknn.graph import DType, TensorType, Value, format_graph, validate


def load(folder: Path, *layers: str) -> Model:
    return formats.load(write(folder, net(*layers)))


def test_the_graph_speaks_in_the_files_words(tmp_path: Path) -> None:
    graph = build(formats.load(write(tmp_path, SMALL)), data=(3, 8, 8))
    validate(graph)
    assert list(graph.outputs) == ["prob", "features"]
    assert graph.outputs["prob"].name == "prob"
    assert graph.outputs["prob"].type.shape == (1, 5)
    origins = {str(node.origin) for node in graph.nodes}
    assert origins == {
        "Convolution 'conv1'",
        "Pooling 'pool'",
        "InnerProduct 'fc'",
        "ReLU 'relu'",
    }
    assert "conv1: float32[1, 4, 8, 8]" in format_graph(graph)


def test_what_passes_through_keeps_its_name(tmp_path: Path) -> None:
    """Even where the layer's name begins the blob's."""
    model = load(tmp_path, "Input i 0 1 a/b", "Dropout a 1 1 a/b c", "Split a 1 2 c d e")
    graph = model.build({"a/b": TensorType((3,))})
    assert [v.name for v in graph.inputs] == ["a/b"]
    assert {v.name for v in graph.outputs.values()} == {"a/b"}


def test_shapes_come_from_the_run_and_not_from_hints(tmp_path: Path) -> None:
    model = formats.load(write(tmp_path, SMALL))
    for size in (3, 8, 21):
        graph = build(model, data=(3, size, size))
        assert graph.outputs["features"].type.shape == (1, 4, size, size)


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int64", "bool"])
def test_numbers_become_float32(dtype: str, tmp_path: Path) -> None:
    model = load(tmp_path, "Input i 0 1 x", "ReLU r 1 1 x y")
    encoded = model.encode("x", np.ones((2, 3), dtype))
    assert (encoded.dtype, encoded.shape) == (np.float32, (1, 2, 3))
    assert model.decode("y", encoded).shape == (2, 3)


@pytest.mark.parametrize(
    "array",
    [
        np.float32(1),
        np.zeros((1, 1, 1, 1, 1), np.float32),
        np.zeros((3, 0), np.float32),
        np.array(["a"]),
        np.array([None]),
        np.array([1j]),
    ],
)
def test_arrays_that_no_blob_can_hold(array: np.ndarray, tmp_path: Path) -> None:
    model = load(tmp_path, "Input i 0 1 x", "ReLU r 1 1 x y")
    with pytest.raises(InputError, match="'x'"):
        model.encode("x", array)


def test_wrong_names(tmp_path: Path) -> None:
    model = formats.load(write(tmp_path, SMALL))
    with pytest.raises(InputError, match=r"missing input 'data'.*unknown input 'image'"):
        build(model, image=(3, 8, 8))
    with pytest.raises(InputError, match="unknown input 'image'"):
        model.encode("image", np.zeros(3))


def test_wrong_shapes_name_the_layer(tmp_path: Path) -> None:
    model = formats.load(write(tmp_path, SMALL))
    for shape in ((4, 8, 8), (8, 8), (3,), (2, 3, 8, 8)):
        with pytest.raises(ShapeError, match=r"layer 'conv1' \(Convolution\): "):
            build(model, data=shape)


def test_a_concatenation_of_many_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cost grows with the blobs, not with their square."""
    asked: list[Value] = []

    def counted(x: Value) -> tuple[int, ...]:
        asked.append(x)
        return context.shape(x)

    monkeypatch.setattr(movement, "shape", counted)
    joined = f"Concat l 500 1 {'x ' * 500}y 0=0"
    graph = build(load(tmp_path, "Input x 0 1 x", joined), x=(3, 4))
    assert graph.outputs["y"].type.shape == (1, 1500, 4)
    assert len(asked) <= 2000


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        ("Convolution l 1 1 x y 0=1 1=5 6=75", (3, 4, 9), "kernel covers"),
        ("Pooling l 1 1 x y 1=5 5=1", (3, 4, 9), "larger than the padded input"),
        ("InnerProduct l 1 1 x y 0=2 2=12", (7,), "takes 6 elements, the input has 7"),
        ("Concat l 2 1 x x y 0=3", (3, 4, 5), "axis 3 does not exist"),
        ("Softmax l 1 1 x y 0=-3 1=1", (7, 3), "axis -3"),
        ("Slice l 1 2 x y z -23300=2,4,4", (7,), "cannot cut 7 elements"),
        ("Slice l 1 2 x y z -23300=1,4", (7,), "1 sizes for 2 outputs"),
        ("Reshape l 1 1 x y 0=5 1=-1", (7,), "does not fit"),
        ("Reshape l 1 1 x y 0=7 1=3", (3, 4), "does not fit"),
        ("Crop l 1 1 x y 0=5 3=-233 4=-233 5=-233", (4,), "cannot cut"),
        ("Crop l 1 1 x y", (4,), "takes a second input"),
        ("Permute l 1 1 x y 0=4", (3, 4), "order_type 4"),
        ("Padding l 1 1 x y 2=9 4=2", (3, 4), "reflect"),
        ("ShuffleChannel l 1 1 x y 0=2", (3, 4, 4), "not divisible"),
        ("LayerNorm l 1 1 x y 0=3", (3, 4), "does not match"),
        ("GroupNorm l 1 1 x y 0=2 1=3 3=0", (3, 4), "equal groups"),
        ("Interp l 1 1 x y 0=1 1=0.01 2=0.01", (3, 9, 9), "would be"),
        ("Interp l 1 1 x y 0=1 3=2000000000 4=2000000000", (3, 9, 9), "absurdly large"),
        ("Padding l 1 1 x y 0=2000000000 2=2000000000", (3, 9, 9), "absurdly large"),
        ("Interp l 1 1 x y 0=1 1=1e30 2=1e30", (3, 9, 9), "absurdly large"),
        ("MultiHeadAttention l 1 1 x y 0=8 1=2 2=64", (4, 6), "width 6"),
        ("BatchNorm l 1 1 x y 0=4", (3, 4), "is for 4 channels"),
        ("Gemm l 1 1 x y 3=1 5=1 8=5 9=6", (2, 3, 6), "cannot have the shape"),
        ("Reshape l 1 1 x y 6=foo", (3, 4), "foo"),
        ('Reshape l 1 1 x y 6="//(0w,0)"', (3, 4), "zero"),
        ('Reshape l 1 1 x y 6="*(0w"', (3, 4), "expression"),
    ],
)
def test_inputs_that_do_not_suit_a_layer(
    layer: str, shape: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    model = load(tmp_path, "Input i 0 1 x", layer)
    with pytest.raises(ShapeError, match=rf"layer 'l' \({layer.split()[0]}\).*{message}"):
        model.build({"x": TensorType(shape, DType.FLOAT32)})


# --- integers -----------------------------------------------------------------------------------


def test_integer_inputs(tmp_path: Path) -> None:
    model = load(tmp_path, "Input i 0 1 x", "Split s 1 1 x a", "Dequantize d 1 1 a y")
    (spec,) = model.inputs
    assert spec.dtype == DType.INT32
    assert model.encode("x", np.array([1, 2], np.int64)).dtype == np.int32
    with pytest.raises(InputError, match="takes int32, not float32"):
        model.encode("x", np.zeros(3, np.float32))
    with pytest.raises(InputError, match="takes int32, not float32"):
        build(model, x=(3,))
    with pytest.raises(InputError, match="beyond int32"):
        model.encode("x", np.array([1 << 40]))


def test_the_data_of_a_crop_decide_its_shape(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        net("Input i 0 1 x", "Input j 0 1 n", "Split s 1 2 n a b", "Crop c 2 1 x b y 0=-233"),
    )
    model = formats.load(path)
    assert model.value_inputs == {"n"}
    assert [s.dtype for s in model.inputs] == [DType.FLOAT32, DType.INT32]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    result = run(path, {"x": x, "n": np.array([1, 2, 0, 3, 2, 0], np.int32)})
    assert np.array_equal(result["y"], x[2:4, 1:4])
    types = {"x": TensorType((4, 6)), "n": TensorType((6,), DType.INT32)}
    with pytest.raises(InputError, match="data of input 'n'"):
        model.build(types)
    with pytest.raises(ShapeError, match="has 2 of 5 numbers"):
        model.build(types, {"n": np.array([1, 2], np.int32)})


def test_int8_inputs_and_outputs(tmp_path: Path) -> None:
    """int8 data go straight into an int8 layer, and come out of one as int8."""
    conv = "Convolution c 1 1 x y 0=4 1=1 6=12 8=101"
    model = load(tmp_path, "Input i 0 1 x", conv, "Split s 1 2 y a b", "ReLU r 1 1 a z")
    assert [s.dtype for s in model.outputs] == [DType.INT8, DType.INT8]
    assert model.encode("x", np.ones((3, 2, 2), np.int8)).dtype == np.int8
    assert model.encode("x", np.ones((3, 2, 2), np.uint8)).dtype == np.float32
    graph = model.build({"x": TensorType((3, 2, 2), DType.INT8)})
    assert graph.inputs[0].type.dtype is DType.INT8
    assert next(n.op.type_name for n in graph.nodes) == "ConvInteger"
    plain = load(tmp_path, "Input i 0 1 x", "ReLU r 1 1 x y")
    assert plain.encode("x", np.ones(3, np.int8)).dtype == np.float32


def test_an_int8_blob_does_not_suit_a_float_layer(tmp_path: Path) -> None:
    model = load(tmp_path, "Input i 0 1 x", "Quantize q 1 1 x q", "Sigmoid s 1 1 q y")
    with pytest.raises(ShapeError, match=r"layer 's' \(Sigmoid\): takes float32"):
        build(model, x=(3,))


def test_int8_is_padded_with_int8(tmp_path: Path) -> None:
    model = load(tmp_path, "Input i 0 1 x", "Quantize q 1 1 x q", "Padding p 1 1 q y 0=1 5=300")
    with pytest.raises(ShapeError, match=r"layer 'p' \(Padding\): .*300 is no int8"):
        build(model, x=(3, 4))


def test_a_net_without_inputs(tmp_path: Path) -> None:
    path = write(tmp_path, net("MemoryData m 0 1 m 0=3 1=2", "Sigmoid s 1 1 m y"))
    assert formats.load(path).inputs == ()
    assert run(path, {})["y"].shape == (2, 3)


def test_an_unread_blob_is_an_output(tmp_path: Path) -> None:
    path = write(tmp_path, net("Input i 0 1 x", "MemoryData m 0 1 m 0=3"))
    results = run(path, {"x": np.ones((2, 2), np.float32)})
    assert list(results) == ["x", "m"]
    assert results["m"].shape == (3,)
