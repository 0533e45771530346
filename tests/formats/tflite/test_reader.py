"""The reader of .tflite files: well-formed and malformed contents, in small models made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.nets import A, B, adding, adding_up, run, totals_operator
from tests.tflite_writer import Net, Table

from vknn.errors import InputError, ModelFormatError, UnsupportedLayerError, VknnError
from vknn.session import Session

Save = Callable[[bytes], Path]


# --- the container --------------------------------------------------------------------------------


def test_a_small_model(save: Save) -> None:
    assert np.array_equal(run(save(adding().file()), a=A)["c"], A + B)


@pytest.mark.parametrize("version", [0, 2, 4])
def test_other_versions_are_refused(save: Save, version: int) -> None:
    with pytest.raises(ModelFormatError, match=f"schema version {version}; vknn reads version 3"):
        Session(save(adding().file(version=version)), device="numpy")


def test_another_identifier(save: Save) -> None:
    data = adding().file()
    with pytest.raises(VknnError):
        Session(save(data[:4] + b"TFL2" + data[8:]), device="numpy")


@pytest.mark.parametrize(
    "fields",
    [
        {"deprecated_builtin_code": 101},
        {"builtin_code": 101},
        {"deprecated_builtin_code": 127, "builtin_code": 101},
        {"deprecated_builtin_code": 101, "builtin_code": 101, "version": 77},
    ],
    ids=["old", "new", "new is less", "version"],
)
def test_both_fields_of_the_code(save: Save, fields: dict[str, int]) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("a", (2, 3))], [net.tensor("c", (2, 3))]
    net.add("ABS", [0], [1])
    net.codes[0] = Table("OperatorCode", fields)
    if fields.get("deprecated_builtin_code") == 127:  # the greater one counts
        with pytest.raises(UnsupportedLayerError, match="PLACEHOLDER_FOR_GREATER_OP_CODES"):
            Session(save(net.file()), device="numpy")
    else:
        assert np.array_equal(run(save(net.file()), a=-A)["c"], A)


def test_options_left_out_are_the_schemas_defaults(save: Save) -> None:
    """The default dilation of a convolution is 1, its padding SAME."""
    net = Net()
    x, y = net.tensor("x", (1, 3, 3, 1)), net.tensor("y", (1, 3, 3, 1))
    net.add("SPACE_TO_DEPTH", [x], [y], {"block_size": 1})
    z, w = net.tensor("z", (1, 3, 3, 1)), net.tensor("w", data=np.ones((1, 3, 3, 1)))
    net.add("CONV_2D", [y, w], [z], {"stride_w": 1, "stride_h": 1})
    s = net.tensor("s", (1, 3, 3, 1))
    net.add("ADD", [z, y], [s])  # without a table: no activation
    net.inputs, net.outputs = [x], [z, s]
    image = -np.ones((1, 3, 3, 1), np.float32)
    results = run(save(net.file()), x=image)
    assert results["z"][0, :, :, 0].tolist() == [[-4, -6, -4], [-6, -9, -6], [-4, -6, -4]]
    assert np.array_equal(results["s"], results["z"] - 1)


def test_the_options_of_another_operator_are_left_aside(save: Save) -> None:
    net = adding()
    net.operators[0].fields["builtin_options"] = Table("Pool2DOptions", {"stride_w": 7})
    assert np.array_equal(run(save(net.file()), a=A)["c"], A + B)


@pytest.mark.parametrize("given", [[0, 1], [0, 1, -1]], ids=["too few", "-1"])
def test_optional_inputs_left_out(save: Save, given: list[int]) -> None:
    net = Net()
    net.inputs = [net.tensor("x", (2, 3))]
    weights = net.tensor("w", data=np.arange(12).reshape(4, 3))
    assert weights == 1
    net.outputs = [net.tensor("y", (2, 4))]
    net.add("FULLY_CONNECTED", given, net.outputs, {})
    expected = A @ np.arange(12, dtype=np.float32).reshape(4, 3).T
    assert np.allclose(run(save(net.file()), x=A)["y"], expected)


def test_an_input_that_must_be_there_left_out(save: Save) -> None:
    net = adding()
    net.operators[0].fields["inputs"] = [0, -1]
    with pytest.raises(VknnError, match=r"operator 0 \(ADD\), 'c': input 1 is missing"):
        run(save(net.file()), a=A)


def test_data_behind_the_flatbuffer(save: Save) -> None:
    """Files of more than 2 GB keep their constants there."""
    content = B.tobytes()

    def file(offset: int, size: int) -> bytes:
        net = adding()
        net.buffers[1] = Table("Buffer", {"offset": offset, "size": size})
        return net.file()

    length = len(file(1 << 20, len(content)))
    assert np.array_equal(run(save(file(length, len(content)) + content), a=A)["c"], A + B)
    for offset, size in ((length, 24), (length + 1, 12), (1 << 40, 12), (12, 1 << 60)):
        with pytest.raises(ModelFormatError, match=r"buffer 1 lies outside the file|needs 12 byte"):
            Session(save(file(offset, size) + content), device="numpy")


def test_tensors_may_share_a_buffer(save: Save) -> None:
    net = adding()
    d = net.tensor("d", (2, 3))
    again = net.tensor("again", (3,), buffer=1)
    net.add("MUL", [1, again], [d], {})
    net.outputs = [d]
    assert np.array_equal(run(save(net.file()), a=A)["d"], (A + B) * B)


# --- names ----------------------------------------------------------------------------------------


def test_empty_and_repeated_names_get_the_index(save: Save) -> None:
    net = Net()
    names = ["same", "", "same", "other"]
    net.inputs = [net.tensor(name, (1,)) for name in names]
    s, t = net.tensor("same", (1,)), net.tensor("", (1,))
    net.add("ADD", [0, 1], [s], {})
    net.add("ADD", [2, 3], [t], {})
    net.outputs = [s, t]
    with Session(save(net.file()), device="numpy") as session:
        assert [i.name for i in session.inputs] == ["same:0", ":1", "same:2", "other"]
        assert [o.name for o in session.outputs] == ["same", ":5"]
        names = [i.name for i in session.inputs]
        values = dict(zip(names, np.float32([[1], [2], [3], [4]]), strict=True))
        assert {n: a.tolist() for n, a in session.run(values).items()} == {"same": [3], ":5": [7]}


def test_outputs_that_are_inputs_constants_and_repeated(save: Save) -> None:
    net = adding()
    net.outputs = [1, 0, 2, 1]  # c, the input, the constant, c again
    results = run(save(net.file()), a=A)
    assert list(results) == ["c:1", "a", "b"]
    assert np.array_equal(results["c:1"], A + B)
    assert np.array_equal(results["a"], A)
    assert np.array_equal(results["b"], B)


def test_the_same_tensor_twice_among_the_inputs(save: Save) -> None:
    net = adding()
    net.inputs = [0, 0]
    with Session(save(net.file()), device="numpy") as session:
        assert [i.name for i in session.inputs] == ["a:0"]
        assert np.array_equal(session.run({"a:0": A})["c"], A + B)


def test_signatures_and_metadata(save: Save) -> None:
    net = adding()
    described = net.buffer(Table("Buffer", {"data": np.frombuffer(b"words", np.uint8)}))
    signature = {
        "signature_key": "serving_default",
        "inputs": [Table("TensorMap", {"name": "image", "tensor_index": 0})],
        "outputs": [Table("TensorMap", {"name": "scores", "tensor_index": 1})],
    }
    data = net.file(
        signature_defs=[Table("SignatureDef", signature)],
        metadata=[Table("Metadata", {"name": "about", "buffer": described})],
        description="a model",
    )
    with Session(save(data), device="numpy") as session:
        assert session.model.description == "a model"
        assert session.model.metadata == {"about": b"words"}
        found = session.model.signatures["serving_default"]
        assert (found.inputs, found.outputs) == ({"image": "a"}, {"scores": "c"})


@pytest.mark.parametrize(
    "fields", [{"subgraph_index": 1}, {"inputs": [Table("TensorMap", {"tensor_index": 9})]}],
    ids=["subgraph", "tensor"],
)  # fmt: skip
def test_signatures_of_what_is_not_there(save: Save, fields: dict[str, object]) -> None:
    data = adding().file(signature_defs=[Table("SignatureDef", fields)])
    with pytest.raises(ModelFormatError, match="signature 0 names"):
        Session(save(data), device="numpy")


# --- shapes ---------------------------------------------------------------------------------------


def test_open_shapes_change_between_runs(save: Save) -> None:
    net = Net()
    net.inputs = [net.tensor("a", (1, 3), shape_signature=[-1, 3])]
    net.outputs = [net.tensor("c", (1, 3), shape_signature=[-1, 3])]
    net.add("ADD", [0, net.tensor("b", data=[1, 2, 3])], [1], {})
    with Session(save(net.file()), device="numpy") as session:
        assert session.inputs[0].shape == (None, 3)
        assert session.outputs[0].shape == (None, 3)
        for rows in (2, 5, 1, 2, 0):
            a = np.ones((rows, 3), np.float32)
            assert np.array_equal(session.run({"a": a})["c"], a + B)
        for shape in ((2, 4), (3,), (1, 2, 3)):
            with pytest.raises(InputError, match=r"the model says \[any, 3\]"):
                session.run({"a": np.ones(shape, np.float32)})


def test_shapes_computed_at_run_time(save: Save) -> None:
    """RESHAPE and SLICE by inputs, and an operator behind them."""
    net = Net()
    x, to = net.tensor("x", (2, 3)), net.tensor("to", (2,), "int32")
    begin, size = net.tensor("begin", (2,), "int32"), net.tensor("size", (2,), "int32")
    y, z, w = net.tensor("y", (3, 2)), net.tensor("z", (1, 1)), net.tensor("w", (1, 1))
    net.add("RESHAPE", [x, to], [y])
    net.add("SLICE", [y, begin, size], [z])
    net.add("NEG", [z], [w])
    net.inputs, net.outputs = [x, to, begin, size], [w, y]
    with Session(save(net.file()), device="numpy") as session:
        for shape, start, count in (((3, 2), (1, 0), (2, 1)), ((6, 1), (2, 0), (-1, -1))):
            feeds = {"x": A, "to": shape, "begin": start, "size": count}
            results = session.run({n: np.asarray(v, A.dtype if n == "x" else np.int32)
                                   for n, v in feeds.items()})  # fmt: skip
            whole = A.reshape(shape)
            stops = [s + c if c >= 0 else None for s, c in zip(start, count, strict=True)]
            part = whole[start[0] : stops[0], start[1] : stops[1]]
            assert np.array_equal(results["y"], whole)
            assert np.array_equal(results["w"], -part)


def test_a_shape_computed_by_operators(save: Save) -> None:
    """SHAPE of an input is known when the graph is built, and so is what is computed of it."""
    net = Net()
    net.inputs = [net.tensor("x", (1, 3), shape_signature=[-1, -1])]
    shape, turned = net.tensor("s", (2,), "int32"), net.tensor("t", (2,), "int32")
    net.outputs = [net.tensor("y", (1, 3), shape_signature=[-1, -1])]
    net.add("SHAPE", [0], [shape], {"out_type": 2})
    net.add("REVERSE_V2", [shape, net.tensor("axis", data=[0], dtype="int32")], [turned])
    net.add("RESHAPE", [0, turned], net.outputs)
    with Session(save(net.file()), device="numpy") as session:
        for dims in ((2, 3), (4, 1)):
            x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
            assert np.array_equal(session.run({"x": x})["y"], x.reshape(dims[::-1]))
            assert session._engine.graph({"x": x}).continuation is None


def unranked(**fields: bool) -> Net:
    """y = -x of tensors without a shape."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", **fields)], [net.tensor("y")]
    net.add("NEG", net.inputs, net.outputs)
    return net


@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 2)])
def test_an_input_without_a_shape_takes_any(shape: tuple[int, ...], save: Save) -> None:
    x = np.ones(shape, np.float32)
    assert np.array_equal(run(save(unranked().file()), x=x)["y"], -x)


def test_a_scalar_that_says_so_takes_no_other_shape(save: Save) -> None:
    with pytest.raises(InputError, match="the model says"):
        run(save(unranked(has_rank=True).file()), x=np.ones(3, np.float32))


# --- state ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def totals() -> Iterator[None]:
    with totals_operator():
        yield


@pytest.mark.usefixtures("totals")
def test_state_is_kept_and_reset(save: Save) -> None:
    net = adding_up(10)
    z = net.tensor("z", (2,))
    net.add("NEG", [1], [z])  # reads what the first operator wrote
    net.outputs = [*net.outputs, z]
    with Session(save(net.file()), device="numpy") as session:
        assert [i.name for i in session.inputs] == ["x"]
        for rounds in (1, 2, 3):
            results = session.run({"x": np.float32([1, 2])})
            assert list(results) == ["y", "z"]
            assert results["y"].tolist() == [10 * rounds, 20 * rounds]
            assert results["z"].tolist() == [-10 * rounds, -20 * rounds]
        session.reset_state()
        assert session.run({"x": np.float32([1, 2])})["y"].tolist() == [10, 20]
