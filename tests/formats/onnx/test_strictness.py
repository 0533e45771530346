"""Files that contradict the operators' signatures or themselves, which onnxruntime refuses, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.onnx_writer import attribute, graph, model, node, save, sequence, simple, tensor, value

from vknn import Session
from vknn.errors import InputError, ModelFormatError, ShapeError, UnsupportedLayerError
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.graph import DType

X = np.arange(6, dtype=np.float32).reshape(2, 3)
RIGHT = (InputError, ModelFormatError, ShapeError, UnsupportedLayerError)


def results(message: Any, folder: Path, **feeds: Any) -> dict[str, Any]:
    with Session(save(message, folder), device="numpy") as session:
        return session.run(feeds or {"x": X})


def refused(message: Any, folder: Path, text: str, **feeds: Any) -> None:
    with pytest.raises(RIGHT, match=text):
        results(message, folder, **feeds)


def number(*given: int) -> np.ndarray:
    return np.asarray(given, np.int64)


ATTRIBUTES = [
    (node("Relu", "x", foo=1), "has no attribute 'foo'"),
    (node("Clip", "x", min=0.0), "Clip 13: has no attribute 'min'"),
    (node("Softmax", "x", axis=1.0), "'axis' is of the kind float, not int"),
    (node("Softmax", "x", axis="1"), "'axis' is of the kind string, not int"),
    (node("Transpose", "x", perm=1), "'perm' is of the kind int, not ints"),
    (node("Concat", "x x"), "has no attribute 'axis'"),
    (node("Cast", "x"), "has no attribute 'to'"),
    (node("Gelu", "x", approximate=0), "'approximate' is of the kind int"),
    (node("Cast", "x", to=1, round_mode="foo"), "'round_mode'"),
    (node("LSTM", "s w r", hidden_size=2, direction="Forward"), "direction 'Forward'"),
    (node("LSTM", "s w r", hidden_size=3), "hidden_size 3"),
    (node("CumSum", "x axis", exclusive=2), "exclusive"),
    (node("Mod", "x x", fmod=2), "fmod"),
    (node("MaxPool", "i", "y z", kernel_shape=[2, 2], storage_order=2), "storage_order"),
    (node("NonMaxSuppression", "boxes scores n", center_point_box=2), "center_point_box"),
    (node("DequantizeLinear", "u one", block_size=-1), "blocks of -1"),
    (node("DequantizeLinear", "u one", block_size=2), "blocks"),
    (node("BatchNormalization", "i c c c c", training_mode=1), "training mode"),
    (node("MaxPool", "i", kernel_shape=[2, 2], pads=[-1, 0, 0, 0]), "negative pads"),
    (node("AveragePool", "i", kernel_shape=[2, 2], pads=[0, 2, 0, 0]), "below its window"),
    (node("ConvTranspose", "i k", output_padding=[1, 0]), "output_padding"),
    (node("Conv", "i k", auto_pad="SAME_UPPER", pads=[0, 0, 1, 1]), "of which ONNX allows one"),
    (node("Transpose", "x", perm=[-1, 0]), "perm"),
    (node("OneHot", "two huge pair"), "which no tensor has"),
    (node("LpPool", "i", kernel_shape=[1 << 40, 1]), "impossible kernel"),
    (node("MaxRoiPool", "i regions", pooled_shape=[1, 1], spatial_scale=-1.0), "spatial_scale"),
    (node("NegativeLogLikelihoodLoss", "x two c"), "for 3 classes"),
]  # fmt: skip
SHAPES = [
    (node("Reshape", "x square"), "shape must have one axis"),
    (node("Expand", "x axis"), "shape must have one axis"),
    (node("Tile", "x axis"), "repeats must have one axis"),
    (node("ConstantOfShape", "axis"), "shape must have one axis"),
    (node("Slice", "x axis two two"), "starts must have one axis"),
    (node("Split", "x axis"), "split must have one axis"),
    (node("Squeeze", "x axis"), "axes must have one axis"),
    (node("Unsqueeze", "x square"), "axes must have one axis"),
    (node("ReduceSum", "x axis"), "axes must have one axis"),
    (node("TopK", "x axis", "y z"), "K must have one axis"),
    (node("TopK", "x two", "y z"), "as K, not one"),
    (node("Pad", "x tall"), "pads"),
    (node("GlobalAveragePool", "x"), "takes planes"),
    (node("GlobalMaxPool", "x"), "takes planes"),
    (node("DepthToSpace", "x", blocksize=1), "takes images"),
    (node("SpaceToDepth", "x", blocksize=1), "takes images"),
    (node("OneHot", "axis depth pair"), "with an axis"),
    (node("OneHot", "two axis pair"), "depth 0"),
    (node("Gemm", "x k2 i"), "does not broadcast to a matrix"),
    (node("DequantizeLinear", "u three zero"), "zero"),
]  # fmt: skip
PORTS = [
    (node("Relu", "x x"), "has 2 inputs|takes 1 inputs"),
    (node("Relu", "x -"), "has 2 inputs; it has 1 at most"),
    (node("Relu", "x", "y z"), "outputs"),
    (node("Add", "x -"), "input 1 is left out"),
    (node("Gemm", "- x"), "input 0 is left out"),
]  # fmt: skip
TENSORS = {
    "axis": np.int64(0), "two": number(1, 1), "square": number(3, 2)[None], "depth": np.int64(3),
    "tall": np.zeros((2, 2), np.int64), "pair": np.float32([0, 1]), "u": np.zeros((2, 3), np.uint8),
    "one": np.float32(1), "three": np.ones(3, np.float32), "zero": np.uint8(0),
    "i": np.ones((1, 1, 3, 3), np.float32), "k": np.ones((1, 1, 2, 2), np.float32),
    "k2": np.ones((3, 2), np.float32), "c": np.ones(1, np.float32), "n": np.int64(3),
    "s": np.ones((2, 1, 3), np.float32), "w": np.ones((1, 8, 3), np.float32),
    "r": np.ones((1, 8, 2), np.float32), "boxes": np.ones((1, 2, 4), np.float32),
    "scores": np.ones((1, 1, 2), np.float32), "huge": np.int64(1 << 31),
    "regions": np.zeros((1, 5), np.float32),
}  # fmt: skip


@pytest.mark.parametrize(("made", "text"), [*ATTRIBUTES, *SHAPES, *PORTS])
def test_nodes(made: Any, text: str, tmp_path: Path) -> None:
    refused(simple(made, node("Abs", "x", "other"), **TENSORS), tmp_path, text)


@pytest.mark.parametrize(
    ("opset", "made", "text"),
    [
        (13, node("Relu", "w"), "Relu 13: input 0 is int32"),
        (21, node("Add", "x w"), "inputs 0 and 1 are float32 and int32"),
        (21, node("Not", "x"), "it takes bool"),
        (21, node("Reshape", "x w"), "input 1 is int32; it takes int64"),
        (21, node("Concat", "x w", axis=0), "of one type"),
        (21, node("SequenceConstruct", "x w"), "of one type"),
        (21, node("SequenceAt", "x w"), "input 0 is float32; it takes seq"),
        (21, node("If", "x"), "has no attribute"),
        (7, node("Sum", "x x v"), "one shape"),
    ],
)
def test_types(opset: int, made: Any, text: str, tmp_path: Path) -> None:
    tensors = {"w": np.int32([3, 2]), "v": np.ones(3, np.float32)}
    refused(simple(made, opset=opset, **tensors), tmp_path, text)


def test_types_are_followed(tmp_path: Path) -> None:
    """Through nodes, functions and branches, taken or not; unused outputs count, too."""
    cast = [node("Cast", "x", "h", to=7), node("Neg", "h", "n"), node("Add", "n x")]
    refused(simple(*cast), tmp_path, "int64 and float32")
    refused(simple(node("Relu", "x"), node("Not", "x", "dead")), tmp_path, "it takes bool")
    unnamed = simple(node("Relu", "x"), node("Abs", "x", "-"))
    refused(unnamed, tmp_path, "output 0 is left out")
    wrong = graph([node("Not", "x", "b")], outputs=[value("b", None)])
    right = graph([node("Abs", "x", "a")], outputs=[value("a", None)])
    branches = node("If", "c", then_branch=right, else_branch=wrong)
    refused(simple(branches, c=np.bool_(True)), tmp_path, "it takes bool")
    called = pb.Function(name="F", domain="own", input=["x"], output=["y"])
    called.node.append(node("BitwiseNot", "x"))
    called.opset_import.add(domain="", version=21)
    body = graph([node("F", "x", domain="own")], [value("x")], [value("y", None)])
    refused(model(body, functions=[called]), tmp_path, "BitwiseNot 18: input 0 is float32")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (pb.Attribute(name="axis", i=1), "unknown kind 0"),
        (pb.Attribute(name="axis", type=2, i=1, f=1.0), "and has a value 'f'"),
        (pb.Attribute(name="axis", type=2, i=1, ints=[1]), "and has a value 'ints'"),
    ],
)
def test_kinds_of_attributes(made: Any, text: str, tmp_path: Path) -> None:
    message = simple(node("Softmax", "x"))
    message.graph.node[0].attribute.append(made)
    refused(message, tmp_path, text)


def test_marks_of_tools_are_no_attributes(tmp_path: Path) -> None:
    message = simple(node("Relu", "x"))
    message.graph.node[0].attribute.append(attribute("__mark", 1))
    assert np.array_equal(results(message, tmp_path)["y"], X)


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_normalizations_have_attributes_that_nobody_knows(operator: str, tmp_path: Path) -> None:
    message = simple(node(operator, "x w", foo=1, axis=-1), w=np.ones(3, np.float32))
    assert results(message, tmp_path)["y"].shape == X.shape
    message.graph.node[0].attribute[1].type = 1
    refused(message, tmp_path, "'axis'|has a value")


def test_strings_are_utf8(tmp_path: Path) -> None:
    refused(simple(node("Constant", "", value_string="a\udcff")), tmp_path, "no UTF-8")
    echo = model(graph([node("Identity", "t", "y")], [value("t", (1,), DType.STRING)],
                       [value("y", None)]))  # fmt: skip
    refused(echo, tmp_path, "a bytes that is no UTF-8", t=np.array([b"\xff"], object))
    assert results(echo, tmp_path, t=np.array([b"a"], object))["y"].tolist() == ["a"]


def _declaring(made: list[Any], output: Any, *between: Any) -> Any:
    body = graph(made, [value("x")], [output])
    body.value_info.extend(between)
    return model(body)


def test_types_that_are_declared(tmp_path: Path) -> None:
    relu, i64 = [node("Relu", "x")], DType.INT64
    refused(_declaring(relu, value("y", None, i64)), tmp_path, "'y' is int64")
    refused(_declaring(relu, sequence("y")), tmp_path, "'y' is a sequence")
    chain = [node("Relu", "x", "t"), node("Abs", "t")]
    refused(_declaring(chain, value("y"), value("t", (2, 3), i64)), tmp_path, "'t' is int64")
    eye = [node("EyeLike", "x", dtype=7)]
    refused(_declaring(eye, value("y")), tmp_path, "'y' is float32")
    for number_ in (0, 99):
        unknown = value("y")
        unknown.type.tensor_type.elem_type = number_
        refused(_declaring(relu, unknown), tmp_path, "element type")
        unknown.name = "t"
        refused(_declaring(chain, value("y"), unknown), tmp_path, "element type")
    # Shapes are hints, and so is what is said of outputs that nothing makes, or says it twice.
    hints = [value("t", (7, 7)), value("t", (1,)), value("nowhere")]
    assert results(_declaring(chain, value("y", (9,)), *hints), tmp_path)["y"].shape == (2, 3)
    message = _declaring(relu, value("y"), value("y", None, i64))
    message.graph.output.append(value("x", None, i64))
    assert results(message, tmp_path)["x"].dtype == np.float32


def test_nothing_to_run(tmp_path: Path) -> None:
    refused(model(graph([node("Relu", "x")], [value("x")])), tmp_path, "no outputs")


def _loop(outputs: str, *made: Any, ends: list[Any], inputs: str = "m c x") -> Any:
    count, truth = value("i", (), DType.INT64), value("k", (), DType.BOOL)
    body = graph([node("Identity", "k", "k2"), *made], [count, truth, pb.ValueInfo(name="s")],
                 [value("k2", (), DType.BOOL), *ends])  # fmt: skip
    tensors = {"m": np.int64(2), "c": np.bool_(True)}
    return simple(node("Loop", inputs, outputs, body=body), **tensors)


def _ends(*names: str) -> list[Any]:
    return [pb.ValueInfo(name=name) for name in names]


def test_numbers_of_results_of_subgraphs(tmp_path: Path) -> None:
    two = [node("Relu", "x", "a"), node("Abs", "x", "b")]
    branch = graph(two, outputs=_ends("a", "b"))
    both = node("If", "c", then_branch=branch, else_branch=branch)
    refused(simple(both, c=np.bool_(True)), tmp_path, "has 1 outputs, its branches 2")
    made = [node("Relu", "s", "o"), node("Relu", "s", "p")]
    refused(_loop("y", *made, ends=_ends("o", "p")), tmp_path, "1 outputs, its body gives others")
    body = graph([node("Add", "s e", "o"), node("Abs", "e", "p")], _ends("s", "e"), _ends("o", "p"))
    scan = node("Scan", "v x", "y", body=body, num_scan_inputs=1)
    refused(simple(scan, v=np.ones(3, np.float32)), tmp_path, "1 outputs, its body gives others")


def test_types_that_change_from_round_to_round(tmp_path: Path) -> None:
    made = _loop("y", node("Cast", "s", "o", to=7), ends=_ends("o"))
    refused(made, tmp_path, "from round to round is float32 first, then int64")
    declared = _loop("y", node("Identity", "s", "o"), ends=_ends("o"))
    declared.graph.node[0].attribute[0].g.input[2].CopyFrom(value("s", None, DType.INT64))
    refused(declared, tmp_path, "'s' is int64")


@pytest.mark.parametrize("outer", ["x", "w", "t"])
def test_names_of_outer_values_are_not_made_again(outer: str, tmp_path: Path) -> None:
    branches = {
        f"{side}_branch": graph([node("Abs", "v", name)], outputs=_ends(name))
        for side, name in (("then", outer), ("else", "b"))
    }
    message = simple(node("Neg", "v", "t"), node("If", "c", **branches), v=X, w=X, c=np.bool_(True))
    refused(message, tmp_path, "name of a value outside")


def test_results_that_are_left_out_have_no_name(tmp_path: Path) -> None:
    """Neither outside of a branch nor inside."""
    pool = node("TopK", "x n", "- places")
    branch = graph([node("TopK", "x n", "- p")], outputs=_ends("p"))
    choice = node("If", "c", then_branch=branch, else_branch=branch)
    message = simple(pool, choice, n=number(2), c=np.bool_(True))
    refused(message, tmp_path, "output 0 is left out")
    lstm = node("LSTM", "s w r", "- - last", hidden_size=2)
    branch = graph([node("LSTM", "s w r", "- - b", hidden_size=2)], outputs=_ends("b"))
    choice = node("If", "c", then_branch=branch, else_branch=branch)
    tensors = {name: TENSORS[name] for name in "swr"}
    message = simple(lstm, choice, c=np.bool_(True), **tensors)
    assert results(message, tmp_path)["y"].shape == (1, 1, 2)


def test_names_inside_are_those_of_later_values(tmp_path: Path) -> None:
    branch = graph([node("Abs", "x", "y")], outputs=_ends("y"))
    choice = node("If", "c", "t", then_branch=branch, else_branch=branch)
    message = simple(choice, node("Neg", "t"), c=np.bool_(True))
    assert np.array_equal(results(message, tmp_path)["y"], -X)


def test_sequences_of_one_type(tmp_path: Path) -> None:
    made = [node("SequenceConstruct", "x", "s"), node("SequenceInsert", "s w", "t"),
            node("SequenceAt", "t i")]  # fmt: skip
    refused(simple(*made, w=number(1), i=np.int64(0)), tmp_path, "sequence of another type")
    body = graph([node("SequenceLength", "s")], [sequence("s")], [value("y", None, DType.INT64)])
    with (
        Session(save(model(body), tmp_path), device="numpy") as session,
        pytest.raises(InputError, match="missing input 's'"),
    ):
        session.run({})


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    body = graph([node("Identity", "x")], [value("x", (1,), DType.STRING)], _ends("y"))
    refused(model(body), tmp_path, "no UTF-8", x=np.array(["\ud800"], object))


# --- what is computed, as onnxruntime does --------------------------------------------------------


@pytest.mark.parametrize("constant", [True, False])
def test_conditions_beyond_an_axis(constant: bool, tmp_path: Path) -> None:
    chosen = np.array([[False, True, True, True]])
    made = node("Compress", "x c", axis=1)
    if constant:
        found = results(simple(made, c=chosen), tmp_path)["y"]
    else:
        inputs = [value("x"), value("c", (1, 4), DType.BOOL)]
        found = results(model(graph([made], inputs, _ends("y"))), tmp_path, x=X, c=chosen)["y"]
    assert np.array_equal(found, X[:, 1:])


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_normalizations_of_onnxruntime(operator: str, tmp_path: Path) -> None:
    """It saves them as operators of old opsets; results have the type of the scale."""
    x = X.astype(np.float16)
    made, inputs = node(operator, "x w", axis=-1), [value("x", (2, 3), DType.FLOAT16)]
    body = graph([made], inputs, _ends("y"), {"w": np.ones(3, np.float32)})
    found = results(model(body, opset=12), tmp_path, x=x)["y"]
    centre = x.mean(1, keepdims=True) if operator[0] == "L" else 0
    spread = np.square(x - centre, dtype=np.float32).mean(1, keepdims=True)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (x - centre) / np.sqrt(spread + 1e-5), atol=2e-3)


def test_nothing_is_quantized_by_one(tmp_path: Path) -> None:
    body = graph([node("DynamicQuantizeLinear", "e", "y s z")], [value("x")], _ends("y", "s", "z"),
                 {"e": np.zeros((0, 3), np.float32)})  # fmt: skip
    found = results(model(body), tmp_path)
    assert found["y"].shape == (0, 3) and (found["s"], found["z"]) == (1, 0)


def test_an_empty_auto_pad_is_none(tmp_path: Path) -> None:
    made = node("MaxPool", "i", kernel_shape=[2, 2], auto_pad="")
    assert results(simple(made, **TENSORS), tmp_path)["y"].shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    "made",
    [
        node("Resize", "e - s", mode="nearest"),
        node("Resize", "i - z0", mode="nearest"),
    ],
)  # fmt: skip
def test_images_without_elements(made: Any, tmp_path: Path) -> None:
    tensors = {
        "e": np.zeros((0, 1, 2, 2), np.float32), "s": np.float32([1, 1, 2, 2]),
        "z0": np.float32([0.5, 1, 1, 1]), "i": TENSORS["i"],
    }  # fmt: skip
    assert results(simple(made, **tensors), tmp_path)["y"].shape[0] == 0


def test_items_of_nothing(tmp_path: Path) -> None:
    made = node("TfIdfVectorizer", "e", min_gram_length=1, max_gram_length=1, max_skip_count=0,
                mode="TF", ngram_counts=[0], ngram_indexes=[0, 1], pool_int64s=[3, 5])  # fmt: skip
    found = results(simple(made, e=np.zeros(0, np.int64)), tmp_path)["y"]
    assert found.tolist() == [0, 0]


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_sequences_of_no_steps_leave_zeros(operator: str, tmp_path: Path) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    ones = {
        "s": np.ones((3, 2, 3), np.float32), "w": np.ones((1, gates * 2, 3), np.float32),
        "r": np.ones((1, gates * 2, 2), np.float32), "h": np.ones((1, 2, 2), np.float32),
        "n": np.int32([0, 2]),
    }  # fmt: skip
    made = node(operator, "s w r - n h", "y last", hidden_size=2)
    body = graph([made], [value("x")], _ends("y", "last"), ones)
    found = results(model(body), tmp_path)
    assert not found["last"][0, 0].any() and found["last"][0, 1].all()
    assert np.array_equal(found["y"][1, 0, 1], found["last"][0, 1])


@pytest.mark.parametrize("text", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "bfloat16"])
@pytest.mark.parametrize("operator", ["IsNaN", "IsInf"])
def test_small_floats_that_are_no_numbers(operator: str, text: str, tmp_path: Path) -> None:
    dtype = np.dtype(getattr(ml_dtypes, text))
    every = np.arange(0, 1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    body = graph([node(operator, "x")], [value("x", every.shape, DType.of(every))], _ends("y"))
    wanted = (np.isnan if operator == "IsNaN" else np.isinf)(every.astype(np.float32))
    assert np.array_equal(results(model(body), tmp_path, x=every)["y"], wanted)


@pytest.mark.parametrize(
    ("most", "parts"), [(0, ["a b  c"]), (1, ["a", "b  c"]), (2, ["a", "b", "c"]), (9, list("abc"))]
)
def test_blanks_behind_the_last_part(most: int, parts: list[str], tmp_path: Path) -> None:
    made = node("StringSplit", "t", "y n", maxsplit=most)
    body = graph([made], [value("x")], _ends("y"), {})
    body.initializer.append(tensor("t", np.array([b" a b  c  "], object)))
    assert results(model(body), tmp_path)["y"].tolist() == [parts]
