"""Casts at a graph's ends that ports do in their place, and places of what is rewired."""

from __future__ import annotations

import numpy as np
import pytest

from vknn import reference
from vknn.bundle.conversions import Kind, PortConversion
from vknn.bundle.ends import narrowed
from vknn.bundle.rewiring import Rewiring
from vknn.graph import DType, Graph, GraphBuilder, Op, TensorType, Value
from vknn.lowering import LoweringOptions, PlanError, check_plan, lower
from vknn.ops.elementwise.binary import Add, Cast, Mul
from vknn.ops.elementwise.unary import Neg
from vknn.ops.indexing.gather import Bounded, Gather, GatherND
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.ops.quantized.codes import GatherCodes
from vknn.plan import Barrier, DeviceLimits, Plan, Port, Role

X = np.float32([[1.5, -2.5, 3], [4, 5, -6e9]])


def ops(graph: Graph) -> list[str]:
    return [node.op.type_name for node in graph.nodes]


def chain(*steps: Op, dtype: DType = DType.FLOAT32) -> Graph:
    builder = GraphBuilder("chain")
    value = builder.input("x", TensorType((2, 3), dtype))
    for step in steps:
        value = builder.add(step, value)
    return builder.finish({"y": value})


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ((Neg(), Cast(DType.INT64)), ["Neg"]),
        ((Cast(DType.INT32), Cast(DType.INT64)), ["Cast"]),
        ((Neg(), Cast(DType.FLOAT64)), ["Neg"]),
        ((Neg(), Cast(DType.UINT32), Reshape((6,))), ["Neg", "Reshape"]),
        (
            (Neg(), Cast(DType.INT64), Transpose((1, 0)), Reshape((6,))),
            ["Neg", "Transpose", "Reshape"],
        ),
        ((Neg(), Cast(DType.INT32)), ["Neg", "Cast"]),  # a device has these
        ((Cast(DType.INT32), Cast(DType.FLOAT64)), ["Cast", "Cast"]),  # the kernel has no such
    ],
)
def test_last_casts(steps: tuple[Op, ...], left: list[str]) -> None:
    graph = chain(*steps)
    made = narrowed(graph)
    assert ops(made) == left
    assert len(graph.nodes) == len(steps)
    (before,) = reference.run(graph, {"x": X}).values()
    (after,) = reference.run(made, {"x": X}).values()
    assert after.shape == before.shape
    (wanted,) = Cast(graph.outputs["y"].type.dtype).reference(after)
    np.testing.assert_array_equal(wanted, before)


def test_what_others_read_in_64_bits_stays() -> None:
    builder = GraphBuilder("both")
    x = builder.input("x", TensorType((2, 3)))
    wide = builder.add(Cast(DType.INT64), x)
    graph = builder.finish({"y": wide, "z": builder.add(Add(), wide, wide)})
    assert ops(narrowed(graph)) == ["Cast", "Add"]
    assert narrowed(graph).outputs["y"] is x


def test_first_casts() -> None:
    builder = GraphBuilder("first")
    x = builder.input("x", TensorType((2, 3), DType.INT64))
    y = builder.add(Neg(), builder.add(Cast(DType.INT32), x))
    graph = builder.finish({"y": y, "z": builder.add(Cast(DType.FLOAT32), x)})
    made = narrowed(graph)
    assert ops(made) == ["Neg", "Cast"]
    assert made.inputs[0].type.dtype is DType.INT32
    given = np.arange(-3, 3).reshape(2, 3)
    before = reference.run(graph, {"x": given})
    after = reference.run(made, {"x": given.astype(np.int32)})
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize(
    ("dtype", "casts", "inner"),
    [
        (DType.INT64, [DType.FLOAT32], DType.FLOAT32),
        (DType.UINT32, [DType.FLOAT32, DType.FLOAT32], DType.FLOAT32),
        (DType.UINT32, [DType.INT32, DType.INT8], DType.INT32),
        (DType.UINT32, [], DType.INT32),
        (DType.UINT32, [DType.INT32, DType.FLOAT32], DType.UINT32),  # its sign would be lost
        (DType.UINT32, [DType.FLOAT16], DType.FLOAT32),
        (DType.INT64, [DType.FLOAT16, DType.FLOAT32], DType.FLOAT32),
        (DType.INT64, [DType.FLOAT16, DType.INT32], DType.INT32),
        (DType.UINT32, [DType.INT64], DType.UINT32),
        (DType.UINT16, [DType.INT32, DType.FLOAT32], DType.INT32),
        (DType.UINT16, [DType.FLOAT16], DType.FLOAT32),
        (DType.INT64, [DType.BOOL], DType.INT32),
        (DType.UINT64, [DType.BOOL], DType.UINT64),
    ],
)
def test_types_of_inputs_by_their_casts(dtype: DType, casts: list[DType], inner: DType) -> None:
    builder = GraphBuilder("casts")
    x = builder.input("x", TensorType((2, 3), dtype))
    made = {f"y{n}": builder.add(Cast(to), x) for n, to in enumerate(casts)}
    z = builder.add(Neg(), builder.input("z", TensorType((2, 3))))
    graph = builder.finish({**made, "z": z})
    assert narrowed(graph).inputs[0].type.dtype is inner


def test_an_input_that_is_computed_with_in_64_bits_stays() -> None:
    builder = GraphBuilder("wide")
    x = builder.input("x", TensorType((2, 3), DType.INT64))
    graph = builder.finish({"y": builder.add(Cast(DType.INT32), builder.add(Mul(), x, x))})
    assert narrowed(graph) is graph


def looked_up(*before: Op, after: Op, dtype: DType = DType.INT64) -> Graph:
    """Rows of a table, by indices that are checked."""
    builder = GraphBuilder("rows")
    value = builder.input("i", TensorType((2, 3), dtype))
    kind = np.uint8 if isinstance(after, GatherCodes) else np.float32
    table = builder.constant(np.arange(10, dtype=kind).reshape(5, 2))
    for op in before:
        value = builder.add(op, value)
    return builder.finish({"y": builder.add(after, table, value)})


@pytest.mark.parametrize(
    ("graph", "left"),
    [
        (looked_up(Bounded(-5, 4), Cast(DType.INT32), after=Gather(0)), ["Gather"]),
        (looked_up(Cast(DType.INT32), Bounded(-5, 4), after=Gather(0)), ["Gather"]),
        (looked_up(Bounded(-5, 4), after=Gather(0), dtype=DType.INT32), ["Gather"]),
        (
            looked_up(Reshape((3, 2)), Bounded(-5, 4), Cast(DType.INT32), after=GatherND()),
            ["Reshape", "GatherND"],
        ),
        (looked_up(Bounded(0, 4), Cast(DType.INT32), after=GatherCodes(8, 2)), ["GatherCodes"]),
    ],
    ids=lambda given: given.nodes[0].op.type_name if isinstance(given, Graph) else "",
)
def test_checks_of_indices_go(graph: Graph, left: list[str]) -> None:
    made = narrowed(graph)
    assert ops(made) == left
    assert made.inputs[0].type.dtype is DType.INT32
    given = np.int32([[0, 1], [4, 0], [2, 1]]).reshape(2, 3)
    before = reference.run(graph, {"i": given.astype(graph.inputs[0].type.dtype.numpy)})
    np.testing.assert_array_equal(reference.run(made, {"i": given})["y"], before["y"])


def test_checks_of_what_is_no_index_stay() -> None:
    builder = GraphBuilder("other")
    x = builder.input("x", TensorType((2, 3), DType.INT32))
    checked = builder.add(Bounded(0, 4), x)
    rows = builder.add(Gather(0), checked, builder.constant(np.int32([1])))
    graph = builder.finish({"y": rows, "z": builder.add(Neg(), checked)})
    assert ops(narrowed(graph)) == ["Bounded", "Gather", "Neg"]
    graph = builder.finish({"y": builder.add(Gather(0), rows, checked), "z": checked})
    assert ops(narrowed(graph)) == ["Bounded", "Gather", "Neg", "Gather"]


def test_first_casts_behind_moves() -> None:
    builder = GraphBuilder("mask")
    mask = builder.input("mask", TensorType((2, 3), DType.INT64))
    moved = builder.add(Transpose((1, 0)), builder.add(Reshape((3, 2)), mask))
    graph = builder.finish({"y": builder.add(Neg(), builder.add(Cast(DType.FLOAT32), moved))})
    made = narrowed(graph)
    assert ops(made) == ["Reshape", "Transpose", "Neg"]
    assert made.inputs[0].type.dtype is DType.FLOAT32
    given = np.arange(-3, 3).reshape(2, 3)
    before = reference.run(graph, {"mask": given})
    after = reference.run(made, {"mask": given.astype(np.float32)})
    np.testing.assert_array_equal(after["y"], before["y"])
    graph.outputs["moved"] = moved  # as it is, so that it is no float's
    assert narrowed(graph).inputs[0].type.dtype is DType.INT32


def rewired(limits: DeviceLimits, options: LoweringOptions | None = None) -> tuple[Plan, Plan]:
    """A plan of a few layers, and the same with both ends of bytes."""
    builder = GraphBuilder("plain")
    value: Value = builder.input("x", TensorType((4, 1000), DType.INT32))
    for _ in range(3):
        value = builder.add(Transpose((1, 0)), builder.add(Neg(), value))
    plan = lower(builder.finish({"y": value}), limits, options)
    wiring = Rewiring(plan, limits)
    inner, outer = (
        PortConversion(Kind.INT8, Kind.INT32, 4000),
        PortConversion(Kind.INT32, Kind.INT64, 4000),
    )
    into = wiring.buffer("x", Role.INPUT, inner.source_bytes)
    out = wiring.buffer("y", Role.OUTPUT, outer.target_bytes)
    wiring.before(inner, into, plan.inputs["x"].buffer, "x")
    wiring.behind(outer, plan.outputs["y"].buffer, out, "y")
    ends = [
        Port(b, TensorType((4000,), t), as_typed=True)
        for b, t in ((into, DType.INT8), (out, DType.INT64))
    ]
    return plan, wiring.finished({"x": ends[0]}, {"y": ends[1]})


@pytest.mark.parametrize("kind", ["cpu", "discrete", "other"])
@pytest.mark.parametrize("guard", [0, 64])
def test_places_of_what_is_rewired(kind: str, guard: int) -> None:
    limits = DeviceLimits(kind=kind)
    plan, made = rewired(limits, LoweringOptions(guard=guard))
    check_plan(made, limits)
    assert made.arenas[Role.INPUT] == 4000
    assert made.arenas[Role.OUTPUT] == 32000
    assert made.submits[-1] == len(made.steps)
    if not guard:  # what was an input or output shares bytes with what is not there meanwhile
        most = plan.arenas[Role.ACTIVATION] + 16000 + 255
        assert made.arenas[Role.ACTIVATION] <= most


def test_a_barrier_stands_behind_and_before_each_conversion() -> None:
    _, made = rewired(DeviceLimits())
    assert isinstance(made.steps[1], Barrier)
    assert isinstance(made.steps[-2], Barrier)
    without = Plan(
        made.name, made.buffers, made.arenas, (made.steps[0], *made.steps[2:]),
        (len(made.steps) - 1,), made.inputs, made.outputs,
    )  # fmt: skip
    with pytest.raises(PlanError, match="no barrier between input port"):
        check_plan(without)
