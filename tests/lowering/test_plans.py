"""Golden plans: the text of the plan of small networks on made-up devices, and what options change.

After a wanted change: VKNN_UPDATE_GOLDEN=1 pytest tests/lowering/test_plans.py, and read the diff.
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from vknn.errors import UnsupportedLayerError
from vknn.graph import Graph, GraphBuilder, Op, Origin, TensorType
from vknn.lowering import Layout, LoweringOptions, check_plan, format_plan, lower
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Relu
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Reshape, Slice
from vknn.ops.pooling.pool import GlobalAveragePool, MaxPool
from vknn.ops.reduction import Softmax
from vknn.passes import run_passes
from vknn.plan import Barrier, Copy, DeviceLimits, Role

GOLDEN = Path(__file__).parent / "golden"

MINIMUM = DeviceLimits()
CPU = DeviceLimits(
    name="cpu",
    kind="cpu",
    max_texel_buffer_elements=1 << 27,
    storage_alignment=16,
    texel_alignment=16,
    max_storage_buffers=32,
    max_group_size=(1024, 1024, 1024),
    max_group_invocations=1024,
    shared_memory=32768,
    subgroup_size=8,
    unified_memory=True,
    preferred_access="image",
)
DISCRETE = DeviceLimits(
    name="discrete",
    kind="discrete",
    max_storage_buffer_range=1 << 32,
    max_texel_buffer_elements=1 << 27,
    max_push_constants=256,
    max_storage_buffers=1 << 20,
    max_group_count=(2147483647, 65535, 65535),
    max_group_size=(1024, 1024, 64),
    max_group_invocations=1024,
    shared_memory=49152,
    subgroup_size=32,
    features=frozenset({"timestamps"}),
)
DEVICES = {d.name: d for d in (MINIMUM, CPU, DISCRETE)}


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def classifier() -> Graph:
    """Two convolutions of which the second adds a branch, pooling, a dense layer, softmax."""
    g = GraphBuilder("classifier")
    x = g.input("x", TensorType((1, 3, 8, 8)))
    pads = (1, 1, 1, 1)
    a = g.add(
        Conv(strides=(2, 2), pads=pads, dilations=(1, 1)),
        x,
        g.constant(random(8, 3, 3, 3)),
        g.constant(random(8)),
        origin=Origin("conv1", "Convolution"),
    )
    a = g.add(Relu(), a)
    b = g.add(
        Conv(strides=(1, 1), pads=pads, dilations=(1, 1)),
        a,
        g.constant(random(8, 8, 3, 3)),
        g.constant(random(8)),
        origin=Origin("conv2", "Convolution"),
    )
    c = g.add(Relu(), g.add(Add(), b, a))
    d = g.add(Reshape((1, 8)), g.add(GlobalAveragePool(), c, origin=Origin("pool", "Pooling")))
    e = g.add(MatMul(), d, g.constant(random(8, 5)), None, origin=Origin("fc", "InnerProduct"))
    y = g.add(Softmax(1), e, origin=Origin("prob", "Softmax"))
    return run_passes(g.finish({"y": y}), frozenset())


def branches() -> Graph:
    """Slices and a concatenation of channels around pooling: views, copies, shared memory."""
    g = GraphBuilder("branches")
    x = g.input("x", TensorType((1, 8, 4, 4)))
    pooled = g.add(MaxPool(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)), x)
    left = g.add(Slice(starts=(0,), ends=(4,), axes=(1,)), pooled)
    right = g.add(Slice(starts=(4,), ends=(8,), axes=(1,)), pooled)
    twice = g.add(MaxPool(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)), left)
    joined = g.add(Concat(1), right, twice)
    y = g.add(MaxPool(kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0)), joined)
    return run_passes(g.finish({"y": y}), frozenset())


NETWORKS = {"classifier": classifier, "branches": branches}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("network", NETWORKS)
def test_plan_is_the_golden_one(network, device):
    plan = lower(NETWORKS[network](), DEVICES[device])
    check_plan(plan)
    text = format_plan(plan)
    path = GOLDEN / f"{network}.{device}.txt"
    if os.environ.get("VKNN_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"the plan is not {path}; see the module's docstring"


def test_plans_are_the_same_every_time():
    assert format_plan(lower(classifier(), CPU)) == format_plan(lower(classifier(), CPU))


def test_layers_are_named_in_the_files_words():
    plan = lower(classifier(), CPU)
    covered = [node for dispatch in plan.dispatches for node in dispatch.nodes]
    assert covered == ["x", "conv1+Relu", "conv2+Add+Relu", "pool", "fc", "prob"]


def test_work_is_estimated():
    plan = lower(classifier(), CPU)
    convolution = max(plan.dispatches, key=lambda d: d.flops)
    assert convolution.flops >= 2 * 8 * 8 * 9 * 16
    assert all(d.nbytes > 0 for d in plan.dispatches)


def test_independent_commands_share_the_gap_between_barriers():
    steps = lower(branches(), CPU).steps
    barriers = sum(isinstance(s, Barrier) for s in steps)
    assert barriers < len(steps) - barriers


def test_switching_aliasing_off_keeps_tensors_apart():
    shared = lower(classifier(), CPU)
    apart = lower(classifier(), CPU, LoweringOptions(disabled=frozenset({"aliasing"})))
    check_plan(apart)
    assert apart.arenas[Role.ACTIVATION] > shared.arenas[Role.ACTIVATION]
    activations = [b for b in apart.buffers if b.role is Role.ACTIVATION and "//" not in b.name]
    ends = sorted((b.offset, b.offset + b.nbytes) for b in activations)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))


def test_guards_lie_behind_every_buffer():
    plan = lower(classifier(), CPU, LoweringOptions(guard=64))
    check_plan(plan)
    ends = {(b.role, b.offset + b.nbytes) for b in plan.buffers if b.role is not Role.WEIGHT}
    assert {(g.role, g.offset) for g in plan.guards} <= ends
    assert all(g.nbytes == 64 for g in plan.guards)


def test_equal_weights_are_packed_once():
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 4, 4, 4)))
    w = g.constant(random(4, 4, 1, 1))
    conv = Conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
    y = g.add(conv, g.add(conv, x, w, None), w, None)
    plan = lower(g.finish({"y": y}), CPU)
    assert len({id(a) for a in plan.constants.values()}) == 1
    weights = [b for b in plan.buffers if b.role is Role.WEIGHT]
    assert len({b.offset for b in weights}) == 1


def test_an_input_that_is_an_output_is_copied():
    g = GraphBuilder()
    x = g.input("x", TensorType((4,)))
    plan = lower(g.finish({"x": x, "y": g.add(Relu(), x)}), CPU)
    check_plan(plan)
    assert any(isinstance(s, Copy) for s in plan.steps)
    assert all(plan.buffers[p.buffer].role is Role.OUTPUT for p in plan.outputs.values())


def test_a_layout_may_be_asked_for():
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 8, 3, 3)))
    graph = g.finish({"y": g.add(Relu(), x)})
    assert len(lower(graph, CPU).dispatches) == 1
    assert len(lower(graph, CPU, LoweringOptions(layout=Layout.C4)).dispatches) == 3


class Unknown(Op):
    def infer(self, *inputs):
        return (inputs[0],)

    def reference(self, *inputs):
        return (inputs[0],)


def test_all_nodes_without_a_kernel_are_named():
    g = GraphBuilder()
    x = g.input("x", TensorType((2,)))
    a = g.add(Unknown(), x, origin=Origin("first", "Odd"))
    y = g.add(Unknown(), a, origin=Origin("second", "Odder"))
    with pytest.raises(UnsupportedLayerError) as error:
        lower(g.finish({"y": y}), CPU)
    assert error.value.layers == ("Odd 'first'", "Odder 'second'")
