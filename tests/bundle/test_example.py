"""The example: devices that are right are within its bounds, one wrong channel is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle.porting import Ported, port_session
from tests.helpers import shared_device, skip_without_half
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net

import vknn
from vknn.bundle import schema
from vknn.bundle.example import ExampleArray, _bounds, example
from vknn.bundle.ports import ported
from vknn.bundle.schema import Direction
from vknn.bundle.tables import Tables
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.graph import Graph
from vknn.lowering import LoweringOptions, WeightCache
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Fused
from vknn.planning import outlined
from vknn.tool_inputs import complete_feeds

pytestmark = pytest.mark.device
FORMATS = ["fp32", "fp16"]


def excesses(made: Ported, arrays: Sequence[ExampleArray]) -> dict[str, float]:
    """Largest errors of outputs on the device, as multiples of what the example allows."""
    ports = made.result.ports
    feeds = {ports[a.port].name: a.array for a in arrays if is_input(made, a)}
    got = made.run(feeds)
    found = {}
    for a in arrays:
        if not is_input(made, a):
            right, name = a.array.astype(np.float64), ports[a.port].name
            assert got[name].shape == a.array.shape
            assert got[name].dtype == a.array.dtype
            allowed = a.absolute + a.relative * np.abs(right)
            error = np.abs(got[name].astype(np.float64) - right)
            found[name] = float(np.max(error / np.maximum(allowed, 1e-300), initial=0.0))
    return found


def is_input(made: Ported, array: ExampleArray) -> bool:
    return made.result.ports[array.port].direction is Direction.INPUT


def options_of(precision: str) -> LoweringOptions:
    if precision != "fp32":
        skip_without_half()
    return LoweringOptions(precision=precision)


def wrong(made: Ported, number: int, factor: float, options: LoweringOptions) -> Ported:
    """The same on a device that gets one channel of the ``number``-th convolution wrong."""
    convolutions = [n for n in made.graph.nodes if isinstance(_base(n.op), Conv)]
    weights = convolutions[number].inputs[1]
    assert weights is not None
    right = weights.constant
    assert right is not None
    try:
        weights.constant = right.copy()
        weights.constant[len(right) // 2] *= factor
        graph = Graph(made.graph.inputs, made.graph.outputs, made.graph.nodes, "wrong")
        limits = shared_device().limits
        outline = outlined(graph, limits, options, passes=False)
        (segment,) = outline.segments
        plan = outline.lowered(segment, WeightCache())
        result = ported(made.model, outline.parts.graph, plan, limits)
    finally:
        weights.constant = right
    return dataclasses.replace(made, result=result)


def _base(op: Any) -> Any:
    return op.base if isinstance(op, Fused) else op


@pytest.mark.parametrize("precision", FORMATS)
def test_a_wrong_channel_is_found_and_a_right_device_passes(tmp_path: Path, precision: str) -> None:
    options = options_of(precision)
    with vknn.Session(write_small_model(tmp_path), device=shared_device()) as session:
        made = port_session(session, {"data": np.zeros(SHAPE, "f4")}, options=options)
    arrays = example(made.model, made.graph, made.result, None, options)
    assert [made.result.ports[a.port].name for a in arrays] == ["data", "out"]
    (excess,) = excesses(made, arrays).values()
    assert 0 < excess < 0.5
    for number in range(2):
        (excess,) = excesses(wrong(made, number, 0.0, options), arrays).values()
        assert excess > 1, number


def test_given_inputs_are_taken_and_others_made(tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=shared_device()) as session:
        given = {"data": np.linspace(-1, 1, 192, dtype="f4").reshape(SHAPE)}
        made = port_session(session, given)
        first = example(made.model, made.graph, made.result, given)
        assert np.array_equal(first[0].array, given["data"])
        wanted = vknn.Session(session.model.file, device="numpy").run(given)["out"]
        np.testing.assert_allclose(first[1].array, wanted, rtol=1e-5)
        again = example(made.model, made.graph, made.result)
        np.testing.assert_array_equal(
            again[0].array, example(made.model, made.graph, made.result)[0].array
        )
        with pytest.raises(vknn.InputError, match="unknown input 'date'"):
            example(made.model, made.graph, made.result, {"date": given["data"]})
        with pytest.raises(vknn.InputError, match=r"'data' has the shape \[3, 8, 7\], the plan's"):
            example(made.model, made.graph, made.result, {"data": given["data"][..., 1:]})


def test_records_of_examples(tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=shared_device()) as session:
        made = port_session(session, {"data": np.zeros(SHAPE, "f4")})
    tables = Tables()
    tables.add(
        schema.EXAMPLE, [a.row(tables) for a in example(made.model, made.graph, made.result)]
    )
    rows = np.array(tables.rows[schema.EXAMPLE], schema.EXAMPLE.dtype)
    assert rows["port"].tolist() == [0, 1]
    assert rows["absolute"][0] == rows["relative"][0] == 0
    assert rows["absolute"][1] > 0


def test_quantized_integers_may_be_one_off() -> None:
    net = Net()
    x = net.tensor("x", (1, 4, 4, 3), "int8", scale=0.5, zero_point=-3)
    y = net.tensor("y", (1, 4, 4, 3), "int8", scale=0.25, zero_point=5)
    net.add("QUANTIZE", [x], [y])
    net.inputs, net.outputs = [x], [y]
    with vknn.Session(net.file(), device=shared_device()) as session:
        made = port_session(session, {"x": np.zeros((1, 4, 4, 3), "i1")})
    arrays = example(made.model, made.graph, made.result)
    assert arrays[1].absolute == 1
    assert set(excesses(made, arrays).values()) <= {0.0, 1.0}


def test_classes_must_be_equal(tmp_path: Path) -> None:
    """Indices of what differs by far more than rounding."""
    from tests import onnx_writer
    from tests.onnx_writer import graph, node, value

    from vknn.graph import DType

    outputs = [value("y", (2, 1), DType.INT64)]
    message = onnx_writer.model(graph([node("ArgMax", "x", axis=1)], [value("x")], outputs))
    with vknn.Session(onnx_writer.save(message, tmp_path), device=shared_device()) as session:
        feeds = {"x": np.float32([[1, 2, 3], [5, 4, 3]])}
        made = port_session(session, feeds)
    arrays = example(made.model, made.graph, made.result, feeds)
    assert arrays[1].array.tolist() == [[2], [0]]
    assert (arrays[1].absolute, arrays[1].relative) == (0, 0)
    assert excesses(made, arrays) == {"y": 0.0}


def test_a_lost_answer_may_be_lost_by_a_little_more_than_in_all_draws() -> None:
    """Errors that take a class away come to its whole score, of any draw or device."""
    right, lost = np.zeros(100, "f4"), np.full(100, 0.005, "f4")
    right[7] = 0.75
    lost[7] = 0.0045
    bounds = _bounds(right, [lost, lost, lost], steps=False)
    assert bounds is not None
    assert abs(0.0035 - 0.75) < bounds[0] + bounds[1] * 0.75 < 0.9


#: Of the benchmark: the networks, sizes of their inputs, a convolution whose channel counts.
NETWORKS: Mapping[str, tuple[tuple[int, int, int], int | None]] = {
    "squeezenet": ((3, 227, 227), 4),
    "mobilenet": ((3, 224, 224), None),
    "mobilenet_v2": ((3, 224, 224), None),
    "mobilenet_v3": ((3, 224, 224), None),
    "shufflenet_v2": ((3, 224, 224), None),
    "efficientnet_b0": ((3, 224, 224), None),
    "resnet18": ((3, 224, 224), None),
    "googlenet": ((3, 224, 224), None),
    "blazeface": ((3, 128, 128), 15),
    "nanodet_m": ((3, 320, 320), None),
    "yolov4-tiny": ((3, 416, 416), None),
    "vision_transformer": ((3, 384, 384), None),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_benchmark(shared: Path, tmp_path: Path, name: str, precision: str) -> None:
    options = options_of(precision)
    shape, convolution = NETWORKS[name]
    param, weights = shared / "benchmark" / "ncnn" / f"{name}.param", tmp_path / f"{name}.bin"
    write_random_weights(param, weights)
    with vknn.Session(param, weights, device=shared_device()) as session:
        feeds = complete_feeds(session, shapes={session.inputs[0].name: shape})
        made = port_session(session, feeds, options=options)
    arrays = example(made.model, made.graph, made.result, feeds, options)
    assert all(excess < 0.5 for excess in excesses(made, arrays).values())
    if convolution is not None:
        bad = excesses(wrong(made, convolution, 0.0, options), arrays)
        assert max(bad.values()) > 1
