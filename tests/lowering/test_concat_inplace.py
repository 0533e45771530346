"""Concatenations in place and slices as views: what is no command any more, what still is one."""

import dataclasses

import numpy as np
import pytest
from tests.helpers import ACCESS_MODES, GUARD_BYTES, assert_close, run_graph, shared_device
from tests.lowering.test_plans import CPU, MINIMUM, random

from vknn import reference
from vknn.graph import GraphBuilder, TensorType
from vknn.lowering import Layout, LoweringOptions, check_plan, format_plan, lower
from vknn.lowering.choose.candidates import candidates
from vknn.lowering.choose.layout_assignment import assign
from vknn.lowering.kit.machine import machine_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Exp, Relu, Sigmoid
from vknn.ops.movement.shape import Concat, Reshape, Slice
from vknn.ops.pooling.pool import MaxPool
from vknn.plan import Copy

CONV = Conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
POOL = MaxPool(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
#: As the devices that align most: 256 bytes are 4 channels of 4 x 4 pixels.
WIDE = dataclasses.replace(CPU, storage_alignment=256)


class Net:
    """A graph that grows: 1x1 convolutions of an input, and whatever is made of them."""

    def __init__(self, channels=8, size=4, batch=1):
        self.g = GraphBuilder("net")
        self.x = self.g.input("x", TensorType((batch, channels, size, size)))
        self.shape = (batch, channels, size, size)
        self.made = 0

    def conv(self, channels, of=None):
        value = self.x if of is None else of
        self.made += 1
        weights = np.random.default_rng(self.made).standard_normal(
            (channels, value.type.dims[1], 1, 1), np.float32
        )
        return self.g.add(CONV, value, self.g.constant(weights), None)

    def concat(self, *values, axis=1):
        return self.g.add(Concat(axis), *values)

    def slice(self, value, start, end, axis=1):
        return self.g.add(Slice((start,), (end,), (axis,)), value)

    def finish(self, *outputs):
        # A last convolution keeps what is before it free of the layout of results.
        ends = [self.conv(4, v) if v.type.rank == 4 else v for v in outputs]
        return self.g.finish({f"y{i}": v for i, v in enumerate(ends)})


def copies(plan):
    return [step for step in plan.steps if isinstance(step, Copy)]


def moves(plan):
    """Kernels that only move data within the plan, not at its edges."""
    edges = ("movement/pack", "movement/unpack")
    return [d.kernel for d in plan.dispatches if "movement" in d.kernel and d.kernel not in edges]


def checked(graph, limits=CPU, **options):
    plan = lower(graph, limits, LoweringOptions(**options))
    check_plan(plan, limits)
    return plan


def agrees(graph, precision="fp32", **changes):
    """The device's results are the reference's, in every access mode, with guards."""
    feeds = {v.name: random(*v.type.dims) for v in graph.inputs}
    expected = reference.run(graph, feeds)
    for mode in ACCESS_MODES:
        limits = dataclasses.replace(shared_device().limits, preferred_access=mode, **changes)
        for guard in (0, GUARD_BYTES):
            options = LoweringOptions(guard=guard, precision=precision)
            results = run_graph(graph, limits, options, feeds)
            for name, want in expected.items():
                assert_close(results[name], want, 1e-5, f"{name}, {mode}, guard {guard}")


def joined():
    """Three convolutions side by side, as in Inception; the last one's channels fill no vec4."""
    net = Net()
    return net.finish(net.concat(net.conv(8), net.conv(12), net.conv(7)))


def nested():
    """DenseNet: each layer reads all before it and adds to it."""
    net = Net()
    state = net.conv(8)
    for _ in range(3):
        state = net.concat(state, net.conv(4, state))
    return net.finish(state)


def shared_input():
    """A part that others read too, one that is there twice, and one that two concats have."""
    net = Net()
    a, b = net.conv(4), net.conv(8)
    first = net.concat(a, b, a)
    second = net.concat(net.g.add(Exp(), b), b)
    return net.finish(first, second, b)


def sliced():
    """ShuffleNet without the shuffle: one half goes on as it is."""
    net = Net()
    whole = net.conv(16)
    left, right = net.slice(whole, 0, 8), net.slice(whole, 8, 16)
    return net.finish(net.concat(left, net.conv(8, right)))


def unaligned():
    """Parts that begin within a vec4, and slices that do."""
    net = Net()
    whole = net.concat(net.conv(5), net.conv(6), net.conv(5))
    return net.finish(net.concat(net.slice(whole, 3, 9), net.slice(whole, 9, 16)))


def rows():
    """Along the first axis that is not 1, in rows; the lengths of the parts are whole vec4s."""
    g = GraphBuilder("rows")
    x = g.input("x", TensorType((1, 1, 6, 4)))
    a, b = g.add(Exp(), x), g.add(Sigmoid(), x)
    y = g.add(Concat(2), a, b)
    return g.finish({"y": g.add(Reshape((1, 48)), y), "b": b})


def odd_rows():
    """Parts whose ends are not whole vec4s: whoever writes there may write 16 bytes."""
    g = GraphBuilder("odd rows")
    x = g.input("x", TensorType((1, 7)))
    y = g.add(Concat(1), g.add(Exp(), x), g.add(Sigmoid(), x), g.add(Relu(), x))
    return g.finish({"y": y})


def reshaped():
    """A head of a detector: maps of two sizes as one list."""
    net = Net()
    maps = [net.conv(8), net.conv(8, net.g.add(POOL, net.x))]
    flat = [net.g.add(Reshape((1, 128)), v) for v in maps]
    return net.g.finish({"y": net.g.add(Exp(), net.concat(*flat))})


def results():
    """Parts, and what they are parts of, that are results."""
    g = GraphBuilder("results")
    x = g.input("x", TensorType((1, 2, 4, 4)))
    a, b = g.add(Exp(), x), g.add(Sigmoid(), x)
    inner = g.add(Concat(1), a, b)
    outer = g.add(Concat(1), inner, g.add(Relu(), x))
    return g.finish({"a": a, "inner": inner, "outer": outer, "x": x})


def inputs_and_constants():
    g = GraphBuilder("inputs")
    x = g.input("x", TensorType((1, 4, 4, 4)))
    z = g.input("z", TensorType((1, 4, 4, 4)))
    y = g.add(Concat(1), x, g.constant(random(1, 4, 4, 4)), g.add(Exp(), x), z)
    return g.finish({"y": y})


def batch():
    """Two images: the channels of one do not lie in a row."""
    net = Net(batch=2)
    return net.finish(net.concat(net.conv(8), net.conv(4)), net.concat(net.conv(8), net.x, axis=0))


GRAPHS = {
    f.__name__: f
    for f in (
        *(joined, nested, shared_input, sliced, unaligned, rows, odd_rows, reshaped, results),
        *(inputs_and_constants, batch),
    )
}


@pytest.mark.device
@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_the_references(name):
    agrees(GRAPHS[name]())


@pytest.mark.device
@pytest.mark.parametrize("name", ["nested", "sliced", "unaligned", "odd_rows"])
def test_results_are_the_references_with_other_alignments(name):
    """As on devices that align to 64 and to 256 bytes: less can be done in place."""
    for alignment in (64, 256):
        agrees(GRAPHS[name](), storage_alignment=alignment)


@pytest.mark.parametrize(
    "disabled",
    ["concat", *(pytest.param(p, marks=pytest.mark.long) for p in ("aliasing", "layouts"))],
)
@pytest.mark.parametrize("name", GRAPHS)
def test_plans_are_sound_on_any_device_and_with_parts_switched_off(name, disabled):
    graph = GRAPHS[name]()
    for limits in (CPU, MINIMUM, WIDE):
        checked(graph, limits)
        checked(graph, limits, precision="fp16")
        checked(graph, limits, disabled=frozenset({disabled}))


def test_a_concat_of_results_of_kernels_is_no_command():
    plan = checked(joined())
    assert not copies(plan)
    assert not moves(plan)
    assert len(copies(checked(joined(), disabled=frozenset({"concat"})))) == 3


def test_parts_lie_in_the_whole_one_after_another():
    plan = checked(joined())
    parts = [b for b in plan.buffers if b.name.startswith("Concat.c4//")]
    whole = next(b for b in plan.buffers if b.name == "Concat.c4")
    assert [b.offset - whole.offset for b in parts] == [0, 8 * 64, 20 * 64]
    assert sum(b.nbytes for b in parts) == whole.nbytes
    assert format_plan(plan).count(f" in %{plan.buffers.index(whole)} Concat.c4//") == 3


def test_concats_of_concats_are_no_commands():
    plan = checked(nested())
    assert not copies(plan)
    assert not moves(plan)
    assert len({b.name.partition("//")[0] for b in plan.buffers if "Concat" in b.name}) == 1


def test_a_tensor_lies_in_one_place_only():
    plan = checked(shared_input())
    # The second time in one concat, and in another concat.
    assert len(copies(plan)) == 2


def test_views_are_copied_into_a_concat():
    plan = checked(sliced())
    (copy,) = copies(plan)
    assert plan.buffers[copy.source].name.startswith("Conv.c4//Slice")
    assert copy.nbytes == 8 * 64
    assert not moves(plan)


def test_views_of_whole_buffers_take_these_along():
    plan = checked(reshaped())
    assert not copies(plan)
    assert not moves(plan)


def test_what_begins_within_a_vec4_is_moved():
    graph = unaligned()
    c4 = checked(graph, layout=Layout.C4)
    assert moves(c4) == [*["movement/place_channels"] * 3, *["movement/gather"] * 2, moves(c4)[-1]]
    assert moves(c4)[-1] == "movement/join_channels"
    # In rows they begin anywhere: unpacked into their places, sliced and joined, packed again.
    plan = checked(graph)
    assert not moves(plan)
    assert len(copies(plan)) == 2


def test_parts_begin_where_the_device_can_bind_them():
    net = Net(size=3)
    graph = net.finish(net.concat(net.conv(4), net.conv(4), net.conv(4)))
    assert not copies(checked(graph))
    # Of parts at 0, 144 and 288 bytes only the first lies at a multiple of 256.
    wide = checked(graph, WIDE)
    assert len(copies(wide)) == 2
    assert sum(b.name.startswith("Concat.c4//") for b in wide.buffers) == 1


def test_slices_are_views_where_the_device_can_bind_them():
    net = Net(size=3)
    whole = net.conv(12)
    graph = net.finish(net.conv(4, net.slice(whole, 4, 8)), net.conv(4, net.slice(whole, 8, 12)))
    assert not copies(checked(graph))
    assert not moves(checked(graph))
    assert len(copies(checked(graph, WIDE))) == 2


def test_ends_that_fill_no_vec4_are_copied_but_for_the_last():
    plan = checked(odd_rows())
    assert len(copies(plan)) == 3  # the second and the third begin at no multiple of 16 bytes
    assert [c.nbytes for c in copies(plan)] == [28, 28, 28]


def test_half_parts_count_half_the_bytes():
    """9 pixels of 4 float16 are 72 bytes: the second part begins at no multiple of 16."""
    net = Net(size=3)
    graph = net.finish(net.concat(net.conv(4), net.conv(8), net.conv(4)))
    assert not copies(checked(graph))
    assert len(copies(checked(graph, precision="fp16"))) == 3
    even = Net(size=4)
    graph = even.finish(even.concat(even.conv(4), even.conv(8), even.conv(4)))
    assert not copies(checked(graph, precision="fp16"))


def test_inputs_and_constants_are_copied():
    plan = checked(inputs_and_constants())
    assert len(copies(plan)) == 3


def test_copies_into_one_concat_need_no_barriers_between_them():
    plan = checked(inputs_and_constants())
    kinds = "".join("c" if isinstance(s, Copy) else "-" for s in plan.steps)
    assert "ccc" in kinds


def test_joining_takes_no_more_memory_than_copying():
    for graph in (joined(), nested(), sliced()):
        placed = checked(graph).arenas
        copied = checked(graph, disabled=frozenset({"concat"})).arenas
        assert all(placed[role] <= copied[role] for role in placed)


def test_the_choice_of_layouts_knows_that_joining_costs_nothing():
    """By copies alone the rows would cost as much in either layout; a repack then decides."""
    net = Net(size=32)
    graph = net.finish(net.concat(net.conv(8), net.conv(8)))
    offers = {n: candidates(n, CPU, LoweringOptions()) for n in graph.nodes}
    (join,) = [n for n in graph.nodes if isinstance(n.op, Concat)]
    dear = [
        dataclasses.replace(c, cost=1.0, parts=()) if c.outputs[0] is Layout.LINEAR else c
        for c in offers[join]
    ]
    offers[join] = dear
    assert assign(graph, offers, machine_of(CPU))[join].outputs == (Layout.C4,)
