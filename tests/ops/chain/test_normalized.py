"""Matrix products that normalise their rows in the same dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph, skip_without_half
from tests.lowering.limits import DEVICES, DISCRETE, MINIMUM, check_limits
from tests.lowering.plan_texts import MATRICES

from vknn.crosscheck.comparison import compare
from vknn.crosscheck.storage import UNITS, rounded
from vknn.crosscheck.tolerance import allowances
from vknn.graph import Graph, GraphBuilder, Op, TensorType
from vknn.lowering import LoweringOptions, candidates, check_plan, lower
from vknn.lowering.kernels.matmul import wide
from vknn.lowering.kit.machine import machine_of
from vknn.ops.chain import Chain
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.ops.matmul import MatMul
from vknn.ops.normalization import LayerNormalization
from vknn.plan import DeviceLimits, Fill
from vknn.reference import run
from vknn.runtime.device import open_device
from vknn.runtime.executor import Executable

RNG = np.random.default_rng(29)
check = functools.partial(check_op, kind="discrete", only="normalized", access=("storage",))
SUM = Fused(MatMul(transpose_b=True), (FusedStep(Add(), 0),))
NORM = LayerNormalization(-1, 1e-5)
GPU = dataclasses.replace(DISCRETE, max_storage_buffers=8)
#: Rows, k, columns: fewer rows than a tile; rows and columns that fill none; several workgroups of
#: columns and parts of k; long rows.
SIZES = [(3, 20, 12), (37, 68, 52), (13, 268, 532), (5, 36, 1036)]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def arrays_of(m: int, k: int, n: int) -> list[np.ndarray]:
    """a, b, bias, what is added, scale, bias of the normalisation."""
    b = floats(n, k) / np.float32(k**0.5)
    return [floats(m, k), b, floats(n), floats(m, n), floats(n), floats(n)]


def chain(*kept: int, op: Op = SUM, counts: tuple[int, int] = (4, 2)) -> Chain:
    return Chain((op, NORM), counts, kept)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_and_their_normalised_rows(sizes: tuple[int, int, int]) -> None:
    check(chain(0), *arrays_of(*sizes), constants=(1, 2, 4, 5))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_floats_of_16_bits(precision: str) -> None:
    check(chain(0), *arrays_of(*SIZES[1]), constants=(1, 2, 4, 5), precision=precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_products_that_nobody_else_reads(precision: str) -> None:
    check(chain(), *arrays_of(*SIZES[1]), constants=(1, 2, 4, 5), precision=precision)


@pytest.mark.parametrize("given", [(), (4,), (5,)], ids=["neither", "scale", "bias"])
def test_without_scale_or_bias(given: tuple[int, ...]) -> None:
    arrays: list[np.ndarray | None] = list(arrays_of(7, 20, 36))
    scale, bias = (arrays[i] if i in given else None for i in (4, 5))
    product = Fused(MatMul(), (FusedStep(Relu()),))
    b = arrays[1]
    assert b is not None
    check(chain(0, op=product, counts=(2, 2)), arrays[0], b.T, scale, bias, constants=(1, 2, 3))


def test_rows_of_a_batch() -> None:
    x, b, c, _, scale, bias = arrays_of(1, 12, 20)
    x, more = floats(2, 5, 12), floats(2, 5, 20)
    check(chain(0), x, b, c, more, scale, bias, constants=(1, 2, 4, 5))


@pytest.mark.parametrize("mean", [1e3, -3e4])
def test_rows_far_from_0_are_as_precise_as_by_themselves(mean: float) -> None:
    """The variance is not the difference of two large numbers."""
    arrays = arrays_of(11, 20, 36)
    arrays[3] += np.float32(mean)
    found = chain(0)
    outputs = found.reference(*arrays)
    x, y = allowances(found, arrays, outputs)
    alone = allowances(NORM, [outputs[0], *arrays[4:]], outputs[1:])[0]
    product = np.abs(arrays[0]) @ np.abs(arrays[1]).T + np.abs(mean)
    assert x.allowed.max() < 1e-5 * product.max()
    assert y.allowed.max() < 10 * alone.allowed.max()
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = single_op_graph(found, arrays, (1, 2, 4, 5))
    for name in offered(graph, limits):
        plan = lower(graph, limits, LoweringOptions(algorithm=name, guard=64))
        with open_device(shared_device().name) as device, Executable(device, plan) as executable:
            results = executable.run({"x0": arrays[0], "x3": arrays[3]})
            executable.check_guards()
        for actual, expected, bound in zip(results.values(), outputs, (x, y), strict=True):
            assert compare(actual, expected, bound).ok, name


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_allowances_cover_what_is_stored_between(precision: str) -> None:
    if precision != "fp32":
        skip_without_half()
    arrays = [rounded(a, precision) for a in arrays_of(23, 68, 52)]
    arrays[3] *= np.float32(64)
    found = chain(0)
    outputs = found.reference(*arrays)
    bounds = allowances(found, arrays, outputs, storage=UNITS.get(precision, 0.0))
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = single_op_graph(found, arrays, (1, 2, 4, 5))
    plan = lower(graph, limits, LoweringOptions(precision=precision))
    with open_device(shared_device().name) as device, Executable(device, plan) as executable:
        results = executable.run({"x0": arrays[0], "x3": arrays[3]})
    for actual, expected, bound in zip(results.values(), outputs, bounds, strict=True):
        assert compare(actual, expected, bound).ok


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_and_nans_stay_in_their_rows(value: float) -> None:
    for place in (0, 3):
        arrays = arrays_of(11, 20, 36)
        arrays[place][7, 3] = value
        check(chain(0), *arrays, constants=(1, 2, 4, 5))


@pytest.fixture
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "FLOAT_DOTS", 2)


@pytest.mark.usefixtures("written_out")
def test_dot_products_of_float16() -> None:
    features = ("float_dot", "fp16_storage", "fp16_arithmetic")
    arrays = arrays_of(*SIZES[2])
    more = {"precision": "fp16", "features": features, "only": "normalized-wide"}
    check(chain(0), *arrays, constants=(1, 2, 4, 5), **more)  # type: ignore[arg-type]


def test_cooperative_matrices() -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = single_op_graph(chain(0), arrays_of(37, 64, 64), (1, 2, 4, 5))
    if not any("cooperative" in name for name in offered(graph, limits, "fp16")):
        pytest.skip(f"{shared_device().name} has no cooperative matrices of float16")
    only = "normalized-cooperative32x32"
    for k, n in ((64, 44), (20, 36)):
        arrays = arrays_of(37, k, n)
        check(chain(0), *arrays, constants=(1, 2, 4, 5), precision="fp16", only=only)


def stacked(count: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """Chains one behind the other, each of what the one before normalised."""
    builder = GraphBuilder()
    m, k = 37, 52
    feeds = {"x": floats(m, k), "more": floats(m, k)}
    v, more = (builder.input(name, TensorType.of(a)) for name, a in feeds.items())
    for _ in range(count):
        constants = [builder.constant(a) for a in (*arrays_of(1, k, k)[1:3], floats(k), floats(k))]
        more, v = builder.add_many(chain(0), v, *constants[:2], more, *constants[2:])
    return builder.finish({"v": v, "more": more}), feeds


@pytest.mark.parametrize("disabled", ["", "unified"])
def test_every_run_counts_workgroups_anew(disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    graph, feeds = stacked(3)
    for guard in (0, 64):
        plan = lower(graph, limits, LoweringOptions(guard=guard))
        check_plan(plan)
        fills = [step for step in plan.steps if isinstance(step, Fill)]
        assert len(fills) == 1  # all counters are filled at once
        with open_device(shared_device().name) as device, Executable(device, plan) as executable:
            for factor in (1, 2, -1):
                now = {name: np.float32(factor) * a for name, a in feeds.items()}
                expected, results = run(graph, now), executable.run(now)
                for name, y in results.items():
                    difference = np.abs(y - expected[name]).max()
                    assert difference < 2e-5 * np.abs(expected[name]).max()
                if guard:
                    executable.check_guards()


def offered(graph: Graph, limits: DeviceLimits, precision: str = "fp32") -> list[str]:
    options = LoweringOptions(precision=precision)
    return [c.name for c in candidates(graph.nodes[0], limits, options)]


def test_devices_and_chains_that_it_is_offered() -> None:
    def names(op: Op, arrays: list[np.ndarray], limits: DeviceLimits = GPU) -> list[str]:
        return offered(single_op_graph(op, arrays, (1, 2, 4, 5)), limits)

    arrays = arrays_of(37, 68, 52)
    found = names(chain(0), arrays)
    assert found and all(name.startswith("normalized-") for name in found)
    assert any("wide" in name for name in found) and any("shared" in name for name in found)
    assert not names(chain(0), arrays, dataclasses.replace(GPU, kind="cpu"))
    assert not names(chain(0), arrays, MINIMUM)  # it has too few buffers a dispatch
    gcn = dataclasses.replace(GPU, vendor_id=0x1002, name="VEGA10", subgroup_size=64)
    assert not names(chain(0), arrays, gcn) and machine_of(gcn).converts
    for m, k, n in ((37, 68, 51), (37, 67, 52), (37, 20, 65536)):
        assert not names(chain(0), arrays_of(m, k, n))
    other = Chain((SUM, LayerNormalization(0)), (4, 2))
    assert not names(other, [*arrays[:4], floats(37, 52), floats(37, 52)])
    own = single_op_graph(chain(0), arrays, (1, 2, 5))  # a scale that is no constant
    assert not offered(own, GPU)
    batches = [floats(2, 5, 12), floats(2, 12, 20)]
    several = chain(0, op=MatMul(), counts=(2, 0))
    assert not offered(single_op_graph(several, batches, (1,)), GPU)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize("sizes", [(37, 68, 52), (145, 768, 768), (145, 256, 2048)], ids=str)
def test_it_fits_the_device(device: str, sizes: tuple[int, int, int], precision: str) -> None:
    limits = dataclasses.replace(DEVICES[device], features=MATRICES.features, max_storage_buffers=8)
    graph = single_op_graph(chain(0), arrays_of(*sizes), (1, 2, 4, 5))
    found = offered(graph, limits, precision)
    assert found or machine_of(limits).converts
    for name in found:
        plan = lower(graph, limits, LoweringOptions(algorithm=name, precision=precision))
        check_limits(plan, limits)
