"""Models that cannot be: one clear error each, at once."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.nets import A, adding, run
from tests.tflite_writer import Net, Table, write

from vknn.errors import (
    ModelFormatError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedLayerError,
    VknnError,
)
from vknn.session import Session

Save = Callable[[bytes], Path]


def test_all_unknown_operators_at_once(save: Save) -> None:
    net = Net()
    net.inputs = [net.tensor("x", (2,))]
    net.add("CONCAT_EMBEDDINGS", [0], [net.tensor("a", (2,))])
    net.add("DELEGATE", [0], [net.tensor("b", (2,))])
    net.add("STABLEHLO_CUSTOM_CALL", [0], [net.tensor("c", (2,))], {"call_target_name": "cufft"})
    net.add("CUSTOM", [0], [net.tensor("d", (2,))], custom_code="Mine")
    net.add("ABS", [0], [net.tensor("e", (2,))])
    net.codes[net.operators[4].fields["opcode_index"]].fields["builtin_code"] = 4321
    net.outputs = [1]
    with pytest.raises(UnsupportedLayerError) as caught:
        Session(save(net.file()), device="numpy")
    text = str(caught.value)
    for part in ("5 unsupported", "CONCAT_EMBEDDINGS (operator 0)", "DELEGATE (operator 1)",
                 "STABLEHLO_CUSTOM_CALL of 'cufft' (operator 2)",
                 "custom operator Mine (operator 3)", "builtin 4321 (operator 4)"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("zero", [1 << 31, -(1 << 31) - 1, 9007199254741247])
def test_zero_points_beyond_32_bits(save: Save, zero: int) -> None:
    net = Net()
    net.inputs = [net.tensor("x", (2,), "uint8", scale=0.5, zero_point=zero)]
    net.outputs = [net.tensor("y", (2,), "uint8", scale=0.5)]
    net.add("ADD", [0, 0], net.outputs)
    with pytest.raises(ModelFormatError, match="zero point beyond 32 bits"):
        Session(save(net.file()), device="numpy")


def calling(*calls: tuple[int, int]) -> bytes:
    """A model of three subgraphs, each x -> y by a call of another or (-1) by NEG."""
    first = Net()
    nets = [first, first.another(), first.another()]
    for net in nets:
        net.inputs, net.outputs = [net.tensor("x", (2,))], [net.tensor("y", (2,))]
    called = dict(calls)
    for number, net in enumerate(nets):
        target = called.get(number, -1)
        if target < 0:
            net.add("NEG", [0], [1])
        else:
            net.add("CALL", [0], [1], {"subgraph": target})
    return first.file()


def test_calls(save: Save) -> None:
    x = np.float32([1, 2])
    assert np.array_equal(run(save(calling((0, 2), (2, 1))), x=x)["y"], -x)


@pytest.mark.parametrize(
    "calls, problem",
    [
        ([(0, 0)], "subgraphs 0 call one another in a circle"),
        ([(0, 1), (1, 2), (2, 1)], "subgraphs 0, 1, 2 call one another in a circle"),
        ([(1, 2), (2, 1)], "in a circle"),
        ([(0, 3)], "names subgraph 3 of 3"),
    ],
    ids=["itself", "two", "unused", "nowhere"],
)
def test_calls_in_a_circle(save: Save, calls: list[tuple[int, int]], problem: str) -> None:
    with pytest.raises(ModelFormatError, match=problem):
        Session(save(calling(*calls)), device="numpy")


def _lopsided(net: Net) -> None:
    net.tensors[0].fields["shape"] = [1 << 30, 1 << 30, 4]


def _negative(net: Net) -> None:
    net.tensors[1].fields["shape"] = [2, -3]


def _many_axes(net: Net) -> None:
    net.tensors[1].fields["shape"] = [1] * 1000


def _large_constant(net: Net) -> None:
    net.tensors[2].fields["shape"] = [1 << 29]


def _short_constant(net: Net) -> None:
    net.tensors[2].fields["shape"] = [4]


def _no_buffer(net: Net) -> None:
    net.tensors[2].fields["buffer"] = 77


def _no_code(net: Net) -> None:
    net.operators[0].fields["opcode_index"] = 9


def _input_from_nowhere(net: Net) -> None:
    net.operators[0].fields["inputs"] = [0, 3]


def _negative_input(net: Net) -> None:
    net.operators[0].fields["inputs"] = [0, -2]


def _output_left_out(net: Net) -> None:
    net.operators[0].fields["outputs"] = [-1]


def _graph_input(net: Net) -> None:
    net.inputs = [5]


def _graph_output(net: Net) -> None:
    net.outputs = [-1]


def _writes_a_constant(net: Net) -> None:
    net.operators[0].fields["outputs"] = [2]


def _writes_twice(net: Net) -> None:
    net.add("NEG", [0], [1])


def _before_it_is_made(net: Net) -> None:
    d = net.tensor("d", (2, 3))
    net.add("NEG", [0], [d])
    net.operators[0].fields["inputs"] = [0, d]


def _made_by_nothing(net: Net) -> None:
    net.outputs = [net.tensor("d", (2, 3))]


def _element_type(net: Net) -> None:
    net.tensors[0].fields["type"] = 99


def _scales(net: Net) -> None:
    quantization = {"scale": np.float32([1, 2, 3, 4, 5]), "quantized_dimension": 1}
    net.tensors[0].fields["quantization"] = Table("QuantizationParameters", quantization)


def _name(damage: Callable[[Net], None]) -> str:
    return damage.__name__.strip("_")


@pytest.mark.parametrize(
    "damage",
    [
        _lopsided, _negative, _many_axes, _large_constant, _short_constant, _no_buffer, _no_code,
        _input_from_nowhere, _negative_input, _output_left_out, _graph_input, _graph_output,
        _writes_a_constant, _writes_twice, _before_it_is_made, _made_by_nothing, _element_type,
        _scales,
    ],
    ids=_name,
)  # fmt: skip
def test_impossible_models(save: Save, damage: Callable[[Net], None]) -> None:
    """Each is one clear error, at once and without large allocations."""
    net = adding()
    damage(net)
    path = save(net.file())
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises((ModelFormatError, UnsupportedLayerError)):
        run(path, a=A)
    assert time.process_time() - start < 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_no_subgraph(save: Save) -> None:
    net = adding()
    model = net.model(subgraphs=[])
    with pytest.raises(ModelFormatError, match="no subgraph"):
        Session(save(write(model)), device="numpy")


def test_an_empty_file(save: Save) -> None:
    with pytest.raises(VknnError):
        Session(save(b""), device="numpy")


@pytest.mark.parametrize("shape", [[1 << 30, 4], [-1, 3]], ids=["huge", "two free"])
def test_reshape_to_the_impossible(save: Save, shape: list[int]) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (2, 2))], [net.tensor("y", (2, 2))]
    net.add("RESHAPE", [0, net.tensor("to", data=shape, dtype="int32")], [1])
    with pytest.raises(VknnError, match=r"operator 0 \(RESHAPE\), 'y'"):
        run(save(net.file()), x=np.ones((2, 2), np.float32))


def test_fill_with_an_absurd_size(save: Save) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("dims", (2,), "int32")], [net.tensor("y", (1, 1))]
    net.add("FILL", [0, net.tensor("value", data=np.float32(1))], [1])
    path = save(net.file())
    assert run(path, dims=np.int32([2, 1]))["y"].tolist() == [[1], [1]]
    with pytest.raises(VknnError, match="FILL"):
        run(path, dims=np.int32([1 << 30, 1 << 30]))
    with pytest.raises(VknnError, match="FILL"):
        run(path, dims=np.int32([-2, 3]))


@pytest.mark.parametrize("name, dtype, target, problem", [
    ("RELU", "uint8", "float32", "output 0 is of float32, not quantized"),
    ("RELU", "int32", "int8", "takes float32, int16, int8, uint8, not int32"),
    ("EXP", "int8", "bool", "output 0 is of bool, not quantized"),
])  # fmt: skip
def test_types_that_are_not_quantized(
    name: str, dtype: str, target: str, problem: str, save: Save
) -> None:
    net = Net()
    net.inputs = [net.tensor("x", (2,), dtype, scale=0.5)]
    net.outputs = [net.tensor("y", (2,), target, scale=0.5)]
    net.add(name, net.inputs, net.outputs)
    with pytest.raises(ShapeError, match=problem):
        run(save(net.file()), x=np.zeros(2, dtype))


def test_a_variable_that_cannot_start_at_its_zero_point(save: Save) -> None:
    net = adding()
    net.tensor("held", (2,), "int8", scale=0.5, zero_point=128, is_variable=True)
    with pytest.raises(ModelFormatError, match="'held' starts at its zero point 128"):
        Session(save(net.file()), device="numpy")


def test_a_state_larger_than_memory(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros take no memory before they are written, and a state that fits nowhere is an error."""
    net = adding()
    net.tensor("held", ((1 << 31) - 1,), "int8", scale=0.5, is_variable=True)
    path = save(net.file())
    start = time.process_time()
    Session(path, device="numpy").close()
    assert time.process_time() - start < 1

    zeros = np.zeros

    def scarce(shape: Any, *rest: Any) -> Any:
        if np.prod(shape) > 1 << 30:
            raise MemoryError("none left")
        return zeros(shape, *rest)

    monkeypatch.setattr("vknn.engine.np.zeros", scarce)
    with pytest.raises(OutOfMemoryError, match="2147483647"):
        Session(path, device="numpy")


def test_several_numbers_where_one_belongs(save: Save) -> None:
    net = Net()
    net.inputs, net.outputs = (
        [net.tensor("x", (4,))],
        [net.tensor("y", (2,)), net.tensor("i", (2,), "int32")],
    )
    net.add("TOPK_V2", [0, net.tensor("k", data=[2, 2], dtype="int32")], net.outputs)
    with pytest.raises(ShapeError, match="k is 2 numbers"):
        run(save(net.file()), x=np.ones(4, np.float32))


@pytest.mark.parametrize("name", ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
def test_resizing_to_an_absurd_size(name: str, save: Save) -> None:
    """Refused before any table of places is made."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 2, 2, 1))], [net.tensor("y", (1, 2, 2, 1))]
    net.add(name, [0, net.tensor("size", data=[2, 1 << 28], dtype="int32")], [1])
    start = time.process_time()
    with pytest.raises(ShapeError, match="268435456"):
        run(save(net.file()), x=np.ones((1, 2, 2, 1), np.float32))
    assert time.process_time() - start < 1


@pytest.mark.parametrize("scale, zero_point", [(1 / 16, 126), (1 / 8, 127), (1 / 16, -(1 << 31))])
def test_a_log_softmax_of_other_steps(scale: float, zero_point: int, save: Save) -> None:
    """TensorFlow Lite's kernel takes one scale and zero point of the output."""
    net = Net()
    net.inputs = [net.tensor("x", (3,), "int8", scale=0.5)]
    net.outputs = [net.tensor("y", (3,), "int8", scale=scale, zero_point=zero_point)]
    net.add("LOG_SOFTMAX", net.inputs, net.outputs)
    with pytest.raises(VknnError, match="LOG_SOFTMAX.*not in steps of 1/16 below 127"):
        run(save(net.file()), x=np.zeros(3, np.int8))


@pytest.mark.parametrize("name", ["SUM", "MEAN", "LOGISTIC"])
def test_an_output_of_scale_zero(name: str, save: Save) -> None:
    net = Net()
    net.inputs = [net.tensor("x", (3,), "int8", scale=0.5)]
    net.outputs = [net.tensor("y", (3,) if name == "LOGISTIC" else (), "int8", scale=0.0)]
    axes = [] if name == "LOGISTIC" else [net.tensor("axes", data=[0], dtype="int32")]
    net.add(name, [0, *axes], net.outputs)
    path = save(net.file())
    with pytest.raises(VknnError, match=f"{name}.*output 0 has a scale of 0"):
        run(path, x=np.zeros(3, np.int8))


def test_a_sum_whose_scales_have_no_ratio(save: Save) -> None:
    net = Net()
    net.inputs = [net.tensor("x", (3,), "int8", scale=0.5, zero_point=3)]
    net.outputs = [net.tensor("y", (), "int8", scale=1e-42)]
    net.add("SUM", [0, net.tensor("axes", data=[0], dtype="int32")], net.outputs, {})
    path = save(net.file())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy's of an overflow among them
        with pytest.raises(VknnError, match="SUM.*has scales whose ratio.*is no float32"):
            run(path, x=np.zeros(3, np.int8))
