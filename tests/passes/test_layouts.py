"""Networks that keep their channels last have no transposes left between their convolutions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.tflite_writer import Net

from vknn.cli import main
from vknn.graph import Graph, Node
from vknn.ops.convolution.conv import Convolution
from vknn.ops.elementwise import Fused
from vknn.ops.movement.shape import Transpose
from vknn.passes import run_passes
from vknn.session import Session


def _rewritten(path: Path) -> Graph:
    with Session(path, device="numpy") as session:
        feeds = {s.name: np.zeros([d or 1 for d in s.shape or ()], s.dtype) for s in session.inputs}
        return run_passes(session._engine.graph(feeds))


def _transposes(graph: Graph) -> tuple[int, int]:
    """How many there are, and how many of them stand between convolutions."""
    makers = {v: node for node in graph.nodes for v in node.outputs}
    behind: set[Node] = set()  # a convolution's results, or what was computed from one
    for node in graph.nodes:
        sources = {makers[v] for v in node.inputs if v in makers}
        if _is_convolution(node) or sources & behind:
            behind.add(node)
    before: set[Node] = set()
    for node in reversed(graph.nodes):
        if _is_convolution(node) or node in before:
            before |= {makers[v] for v in node.inputs if v in makers}
    found = [n for n in graph.nodes if isinstance(n.op, Transpose)]
    return len(found), sum(n in behind and n in before for n in found)


def _is_convolution(node: Node) -> bool:
    op = node.op.base if isinstance(node.op, Fused) else node.op
    return isinstance(op, Convolution)


@pytest.mark.parametrize(
    "name, in_all, between",
    [
        ("face_detection_front", 5, 0),  # one in front, one at each of the four heads
        ("face_detection_short_range", 5, 0),
        ("face_landmark", 1, 0),
        ("tf2_mobilenet_v2_1.0_224_ptq", 1, 0),
        ("style_transfer_dynamic", 2, 0),
        ("RFB-320_without_postprocessing", 9, 0),
    ],
)
def test_transposes_left(name: str, in_all: int, between: int, shared: Path) -> None:
    graph = _rewritten(shared / "models" / "tflite" / f"{name}.tflite")
    assert sum(_is_convolution(n) for n in graph.nodes) > 20
    assert _transposes(graph) == (in_all, between)


def _blocks() -> bytes:
    """A bottleneck block as MobileNet has it, with paddings of its own and a shortcut."""
    net = Net()
    random = np.random.default_rng(0)

    def convolution(x: int, channels: tuple[int, int], size: int, name: str, **given: int) -> int:
        y = net.tensor(name, (1, size, size, channels[1]))
        weights = net.tensor("w", data=random.standard_normal((channels[1], 1, 1, channels[0])))
        net.add("CONV_2D", [x, weights], [y], {"stride_w": 1, "stride_h": 1, **given})
        return y

    x = net.tensor("x", (1, 8, 8, 3))
    a = convolution(x, (3, 8), 8, "a", fused_activation_function=3)
    b = convolution(a, (8, 16), 8, "b", fused_activation_function=3)
    c, d = net.tensor("c", (1, 9, 9, 16)), net.tensor("d", (1, 4, 4, 16))
    pads = net.tensor("pads", data=[[0, 0], [0, 1], [0, 1], [0, 0]], dtype="int32")
    net.add("PAD", [b, pads], [c])
    weights = net.tensor("w", data=random.standard_normal((1, 3, 3, 16)))
    options = {"stride_w": 2, "stride_h": 2, "depth_multiplier": 1, "padding": 1}
    net.add("DEPTHWISE_CONV_2D", [c, weights], [d], options | {"fused_activation_function": 3})
    e, f = convolution(d, (16, 8), 4, "e"), net.tensor("f", (1, 4, 4, 8))
    pool = {"filter_width": 2, "filter_height": 2, "stride_w": 2, "stride_h": 2}
    shorter = net.tensor("shorter", (1, 4, 4, 8))
    net.add("AVERAGE_POOL_2D", [a], [shorter], pool)
    net.add("ADD", [e, shorter], [f], {})
    g = convolution(f, (8, 5), 4, "g")
    means, y = net.tensor("means", (1, 5)), net.tensor("y", (1, 5))
    axes = net.tensor("axes", data=[1, 2], dtype="int32")
    net.add("MEAN", [g, axes], [means], {"keep_dims": False})
    net.add("SOFTMAX", [means], [y], {"beta": 1.0})
    net.inputs, net.outputs = [x], [y]
    return net.file()


def test_none_but_at_the_input(tmp_path: Path) -> None:
    path = tmp_path / "blocks.tflite"
    path.write_bytes(_blocks())
    graph = _rewritten(path)
    assert sum(_is_convolution(n) for n in graph.nodes) == 5
    assert _transposes(graph) == (1, 0)


@pytest.mark.device
def test_the_plan_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "blocks.tflite"
    path.write_bytes(_blocks())
    assert main(["info", str(path), "--plan"]) == 0
    plan = capsys.readouterr().out
    assert plan.count("Conv") >= 5
    assert plan.count("Transpose") == 1
