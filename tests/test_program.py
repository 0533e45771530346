"""Programs: device and host segments, data-dependent shapes, subprograms."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn import reference
from vknn.compile import Target, compile_graph
from vknn.errors import DeviceError
from vknn.graph import GraphBuilder, Op, TensorType, validate
from vknn.lowering.choose.split_weights import split_columns
from vknn.ops.elementwise import Add, Fused, FusedStep, Mul, Relu, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape
from vknn.passes.fusion import unfuse
from vknn.runtime import Executable, live_objects, open_device


@dataclass(frozen=True)
class OnHost(Op):
    """x + 1, without a kernel."""

    def infer(self, *inputs):
        return (inputs[0],)

    def reference(self, *inputs):
        return (inputs[0] + np.float32(1),)


@dataclass(frozen=True)
class PositiveRows(Op):
    """The rows whose first element is positive: a shape that depends on data, on the host."""

    def infer(self, *inputs):
        return (TensorType((None, *inputs[0].shape[1:]), inputs[0].dtype),)

    def bound(self, *inputs):
        return (inputs[0],)

    def reference(self, *inputs):
        return (inputs[0][inputs[0][:, 0] > 0],)


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(params=[pytest.param("vulkan", marks=pytest.mark.device), "host"])
def target(request):
    return Target(shared_device() if request.param == "vulkan" else None)


def test_one_plan_for_a_network_the_device_can_run_whole(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    y = g.add(Add(), g.add(Relu(), x), x)
    program = compile_graph(g.finish({"y": y}), target, passes=False)
    a = array(2, 3)
    np.testing.assert_allclose(program.run({"x": a})["y"], np.maximum(a, 0) + a)
    assert len(program.segments) == 1
    program.close()


def test_host_steps_stand_between_device_segments(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    mid = g.add(OnHost(), g.add(Relu(), x))
    side = g.add(Relu(), x)
    y = g.add(Add(), g.add(Relu(), mid), side)
    program = compile_graph(g.finish({"y": y, "mid": mid}), target, passes=False)
    a = array(2, 3)
    out = program.run({"x": a})
    np.testing.assert_allclose(out["mid"], np.maximum(a, 0) + 1)
    np.testing.assert_allclose(out["y"], np.maximum(a, 0) * 2 + 1)
    if target.device is not None:
        assert len(program.segments) == 3
        assert sorted(set(program.placement.values())) == ["host", "vulkan"]
    program.close()


def test_nodes_behind_a_data_dependent_shape_are_compiled_when_it_is_known(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((5, 3)))
    rows = g.add(PositiveRows(), g.add(Relu(), x))
    y = g.add(Add(), rows, rows)
    program = compile_graph(g.finish({"rows": rows, "y": y, "x": x}), target, passes=False)
    for seed in range(4):
        a = array(5, 3, seed=seed)
        out = program.run({"x": a})
        expected = np.maximum(a, 0)[a[:, 0] > 0]
        np.testing.assert_allclose(out["rows"], expected)
        np.testing.assert_allclose(out["y"], expected * 2)
        np.testing.assert_array_equal(out["x"], a)
    shapes = {c.graph.inputs[0].type.shape for c in program.subprograms}
    assert len(shapes) == len(program.subprograms)
    program.close()


def test_subprograms_are_kept_by_shape(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((4, 2)))
    y = g.add(Relu(), g.add(PositiveRows(), x))
    program = compile_graph(g.finish({"y": y}), target, passes=False)
    a = np.abs(array(4, 2))
    for _ in range(3):
        assert program.run({"x": a})["y"].shape == (4, 2)
    assert len(program.subprograms) == 1
    assert program.run({"x": -a})["y"].shape == (0, 2)
    assert len(program.subprograms) == 2
    program.close()


def test_constants_and_inputs_may_be_outputs(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((3,)))
    c = g.constant(np.arange(3, dtype=np.float32), "c")
    y = g.add(Add(), x, c)
    program = compile_graph(g.finish({"x": x, "c": c, "y": y, "again": y}), target, passes=False)
    a = array(3)
    out = program.run({"x": a})
    np.testing.assert_array_equal(out["x"], a)
    np.testing.assert_array_equal(out["c"], np.arange(3))
    np.testing.assert_allclose(out["y"], a + np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(out["again"], out["y"])
    program.close()


def test_a_constant_in_another_shape_is_a_weight(target):
    """Where nothing has folded it: a view of a buffer whose bytes the runtime holds whole."""
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    c = g.add(Reshape((2, 3)), g.constant(np.arange(6, dtype=np.float32), "c"))
    graph = g.finish({"c": c, "y": g.add(Add(), x, c)})
    program = compile_graph(graph, target, passes=False)
    a = array(2, 3)
    out = program.run({"x": a})
    np.testing.assert_array_equal(out["c"], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(out["y"], a + np.arange(6, dtype=np.float32).reshape(2, 3))
    program.close()


def test_values_of_one_name_are_kept_apart(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((3,)))
    a = g.add(OnHost(), x)
    b = g.add(OnHost(), a)
    a.name = b.name = "same"
    y = g.add(Add(), a, b)
    program = compile_graph(g.finish({"y": y}), target, passes=False)
    data = array(3)
    np.testing.assert_allclose(program.run({"x": data})["y"], 2 * data + 3, rtol=1e-6)
    program.close()


def test_a_fused_node_that_no_kernel_takes_whole_runs_on_the_device_in_parts(target):
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3, 1, 5)))
    w = g.input("w", TensorType((3, 4, 1)))
    channel = g.constant(array(1, 3, 1, 1), "channel")
    steps = (FusedStep(Mul(), operand=0), FusedStep(Sub(), scalar=2.0, reverse=True))
    steps += (FusedStep(Relu()),)
    y = g.add(Fused(Add(), steps), x, w, channel)
    program = compile_graph(g.finish({"y": y}), target, passes=False)
    a, b = array(2, 3, 1, 5), array(3, 4, 1)
    expected = np.maximum(2 - (a + b) * array(1, 3, 1, 1), 0)
    np.testing.assert_allclose(program.run({"x": a, "w": b})["y"], expected, rtol=1e-5, atol=1e-6)
    if target.device is not None:
        assert set(program.placement.values()) == {"vulkan"}
    program.close()


def test_parts_of_a_fused_node_mean_what_it_means():
    steps = (FusedStep(Mul(), operand=0), FusedStep(Sub(), scalar=2.0, reverse=True))
    for count in range(3):
        op = Fused(Relu(), steps[:count])
        g = GraphBuilder()
        arrays = [array(2, 3, 4), array(2, 3, 4, seed=1)][: 1 + op.operand_count]
        values = [g.input(f"x{i}", TensorType((2, 3, 4))) for i in range(len(arrays))]
        graph = g.finish({"y": g.add(op, *values)})
        parts = graph.replace(unfuse(graph.nodes[0]))
        validate(parts)
        feeds = {f"x{i}": a for i, a in enumerate(arrays)}
        np.testing.assert_array_equal(
            reference.run(parts, feeds)["y"], reference.run(graph, feeds)["y"]
        )


@pytest.mark.device
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_matrix_larger_than_a_shader_can_see_is_multiplied_in_parts(transposed, bias):
    device = open_device()
    device.limits = dataclasses.replace(device.limits, max_storage_buffer_range=8192)
    matrix = array(37, 120)
    g = GraphBuilder()
    x = g.input("x", TensorType((3, 37)))
    b = g.constant(matrix.T.copy() if transposed else matrix, "b")
    offset = g.constant(array(120), "bias") if bias else None
    product = Fused(MatMul(transpose_b=transposed), (FusedStep(Relu()),))
    program = compile_graph(
        g.finish({"y": g.add(product, x, b, offset)}), Target(device), passes=False
    )
    a = array(3, 37, seed=1)
    expected = np.maximum(a @ matrix + (array(120) if bias else 0), 0)
    np.testing.assert_allclose(program.run({"x": a})["y"], expected, rtol=1e-4, atol=1e-5)
    assert set(program.placement.values()) == {"vulkan"}
    parts = [n.op for n in program.graph.nodes if isinstance(n.op, Fused)]
    assert len(parts) > 2
    program.close()
    device.close()


@pytest.mark.usefixtures("nothing_forgotten")
def test_a_segment_that_fails_leaves_nothing_behind(monkeypatch):
    """The second of two device segments cannot be made ready."""
    g = GraphBuilder()
    x = g.input("x", TensorType((2, 3)))
    graph = g.finish({"y": g.add(Relu(), g.add(OnHost(), g.add(Relu(), x)))})
    target = Target(shared_device())
    made = []

    def fails_later(*args, **options):
        if made:
            raise DeviceError("no more of it")
        made.append(Executable(*args, **options))
        return made[0]

    compile_graph(graph, target, passes=False).close()  # what all programs share stays
    before = live_objects()
    monkeypatch.setattr("vknn.compile.Executable", fails_later)
    with pytest.raises(DeviceError, match="no more of it"):
        compile_graph(graph, target, passes=False)
    assert made
    assert live_objects() == before


def test_a_small_matrix_is_not_split():
    g = GraphBuilder()
    x = g.input("x", TensorType((3, 37)))
    graph = g.finish({"y": g.add(MatMul(), x, g.constant(array(37, 8)), None)})
    assert split_columns(graph.nodes[0], 1 << 27, half=False) is None


@pytest.mark.parametrize(
    ("rows", "columns", "room", "half", "widths"),
    [
        (25088, 4096, 1 << 27, False, [1024] * 4),  # VGG-16's first layer of 411 MB
        (25088, 4096, 1 << 27, True, [2048] * 2),
        (100, 1000, 256 * 1000, False, [384, 384, 232]),  # a remainder, and rows as of whole tiles
        (37, 120, 8192, False, [24] * 5),  # a tile does not fit
        (37, 120, 1 << 16, True, None),
        (1 << 20, 8, 1 << 12, False, None),  # not a column fits
    ],
)
def test_a_large_matrix_is_split_into_as_few_equal_parts_as_its_bytes_allow(
    rows, columns, room, half, widths
):
    matrix = np.broadcast_to(np.float32(1), (rows, columns))
    g = GraphBuilder()
    x = g.input("x", TensorType((1, rows)))
    op = Fused(MatMul(), (FusedStep(Relu()),))
    (node,) = g.finish({"y": g.add(op, x, g.constant(matrix, "b"), None)}).nodes
    parts = split_columns(node, room, half)
    if widths is None:
        assert parts is None
        return
    *products, joined = parts
    assert [p.output_types[0].dims[-1] for p in products] == widths
    assert all(isinstance(p.op, Fused) for p in products)
    assert joined.inputs == tuple(p.outputs[0] for p in products)


def test_steps_that_read_tensors_are_done_behind_the_parts():
    g = GraphBuilder()
    x, z = g.input("x", TensorType((3, 37))), g.input("z", TensorType((3, 120)))
    op = Fused(MatMul(), (FusedStep(Add(), operand=0),))
    (node,) = g.finish({"y": g.add(op, x, g.constant(array(37, 120)), None, z)}).nodes
    assert split_columns(node, 8192, half=False) is None
    assert split_columns(unfuse(node)[0], 8192, half=False) is not None
