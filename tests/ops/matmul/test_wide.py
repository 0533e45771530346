"""Products whose lanes share rows of a (matmul/wide), with parts of k too, against NumPy."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, run_graph, shared_device, single_op_graph, skip_without_half
from tests.lowering.limits import DISCRETE

from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kernels.matmul.gemm import Gemm
from vknn.lowering.kernels.matmul.wide import HELD_SUMS, ROWS, WideTile, wide_tiles
from vknn.lowering.kit.machine import machine_of
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.ops.matmul import MatMul
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(23)
check = functools.partial(check_op, kind="discrete", access=("storage",), only="wide")
HALF = functools.partial(check, precision="fp16")

#: Shapes of a and b. k of 4, 20 and 44: a step of k, and a remainder of each kind.
PRODUCTS = {
    "a step": ((2, 4), (4, 4)),
    "fewer rows than a tile": ((3, 20), (20, 12)),
    "a remainder of rows": ((13, 44), (44, 20)),
    "more columns than a workgroup": ((5, 12), (12, 268)),
    "batches": ((3, 5, 8), (3, 8, 12)),
    "a shared b": ((2, 5, 8), (8, 12)),
    "b shared by some": ((2, 1, 5, 8), (3, 8, 12)),
    "two batch axes": ((2, 3, 1, 5, 4), (2, 1, 2, 4, 4)),
    "two parts, uneven": ((7, 68), (68, 12)),
    "four parts, the last short": ((11, 268), (268, 20)),
    "eight parts, the last empty": ((5, 524), (524, 44)),
    "parts of batches": ((2, 1, 3, 132), (3, 132, 8)),
}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def arrays_of(name: str) -> list[np.ndarray]:
    a, b = PRODUCTS[name]
    return [floats(*a), floats(*b), floats(b[-1])]


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("constants", [(), (1,), (1, 2)], ids=["none", "b", "b and bias"])
def test_products(name: str, constants: tuple[int, ...]) -> None:
    check(MatMul(), *arrays_of(name), constants=constants)


@pytest.mark.parametrize("name", ["a remainder of rows", "four parts, the last short"])
def test_products_without_bias(name: str) -> None:
    a, b, _ = arrays_of(name)
    check(MatMul(), a, b)
    check(MatMul(), a, b, constants=(1,))


@pytest.mark.parametrize("k", [20, 140])
def test_a_constant_that_is_transposed(k: int) -> None:
    """Constants are packed along n whatever their order was."""
    check(MatMul(transpose_b=True), floats(5, k), floats(12, k), floats(12), constants=(1, 2))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("k", [8, 132])
def test_epilogues(k: int, bias: bool) -> None:
    op = Fused(MatMul(), (FusedStep(Add(), operand=0), FusedStep(Relu())))
    vector = floats(12) if bias else None
    check(op, floats(5, k), floats(k, 12), vector, floats(5, 12))
    check(op, floats(5, k), floats(k, 12), vector, floats(12), constants=(1, 2) if bias else (1,))


@pytest.mark.parametrize("name", ["a remainder of rows", "four parts, the last short"])
def test_in_fp16(name: str) -> None:
    a, b, bias = arrays_of(name)
    HALF(MatMul(), a, b, bias, constants=(1, 2))
    HALF(MatMul(), a, b, bias)
    fused = Fused(MatMul(), (FusedStep(Relu()), FusedStep(Add(), operand=0)))
    HALF(fused, a, b, bias, floats(a.shape[0], b.shape[1]))


def test_rows_and_columns_that_nobody_has() -> None:
    """Infinities of the last row and column stay in these."""
    a, b = np.ones((5, 132), np.float32), np.ones((132, 12), np.float32)
    a[4, 3] = b[7, 11] = np.inf
    check(MatMul(), a, b)
    check(MatMul(), a, b, constants=(1,))


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16 arithmetic"])
def test_subgroups_of_another_size_than_the_device_says(half: bool) -> None:
    """Lanes that cannot be told apart by subgroups all add up all of k."""
    limits = shared_device().limits
    if half:
        skip_without_half()
        if "fp16_arithmetic" not in limits.features:
            pytest.skip(f"{shared_device().name} has no 16-bit arithmetic")
    smaller = max(1, limits.subgroup_size // 2)
    limits = dataclasses.replace(limits, kind="discrete", subgroup_size=smaller)
    a, b = floats(5, 268), floats(268, 4 * smaller)
    graph = single_op_graph(MatMul(), [a, b], (1,))
    precision = "fp16" if half else "fp32"
    options = LoweringOptions(guard=64, precision=precision, arithmetic=precision)
    found = [c.name for c in candidates(graph.nodes[0], limits, options)]
    names = [name for name in found if name.startswith("wide")]
    assert any("split" in name for name in names)
    for name in names:
        wanted = dataclasses.replace(options, algorithm=name)
        y = run_graph(graph, limits, wanted, {"x0": a})["y0"]
        np.testing.assert_allclose(y, a @ b, atol=0.5 if half else 1e-3, err_msg=name)


def names(gemm: Gemm, limits: DeviceLimits) -> list[str]:
    return [tile.name for tile in wide_tiles(gemm, limits)]


def product(m: int, k: int, n: int) -> Gemm:
    return Gemm(m, n, k, k, 1, n, 1, n)


GPU = dataclasses.replace(
    DISCRETE, subgroup_size=64, max_group_size=(1024, 1024, 64), max_group_invocations=1024
)


@pytest.mark.host
def test_parts_only_where_lanes_are_few() -> None:
    assert names(product(4096, 1024, 4096), GPU) == ["wide8", "wide4"]
    few = ["wide8", "wide8-split8", "wide4", "wide4-split4"]
    assert names(product(145, 768, 768), GPU) == few
    assert names(product(145, 64, 768), GPU) == ["wide8", "wide8-split2", "wide4", "wide4-split2"]
    assert names(product(145, 60, 768), GPU) == ["wide8", "wide4"]
    assert names(product(4, 60, 768), GPU) == ["wide4"]


@pytest.mark.host
@pytest.mark.parametrize(("name", "converts"), [("RADV RAVEN", True), ("RADV NAVI21", False)])
def test_only_gcn_takes_longer_for_factors_of_float16(name: str, converts: bool) -> None:
    """It converts each before it multiplies it, half as many instructions as the
    products of a tile of four rows; sums in float16 need none of that."""
    limits = dataclasses.replace(GPU, name=name, vendor_id=0x1002, subgroup_size=64)
    machine, gemm = machine_of(limits), product(145, 768, 3072)
    tile = WideTile(4, 64)
    assert machine.converts == converts
    single = tile.cost(machine, gemm, half=False)
    half = tile.cost(machine, gemm, half=False, fp16=True, converts=machine.converts)
    assert 1.3 * single < half < 1.6 * single if converts else half <= single
    assert tile.cost(machine, gemm, half=True, fp16=True, converts=converts) < single


@pytest.mark.host
def test_devices_and_products_without() -> None:
    assert not names(product(145, 766, 768), GPU)
    assert not names(product(1, 768, 768), GPU)
    assert not names(product(145, 768, 768), dataclasses.replace(GPU, kind="cpu"))
    small = dataclasses.replace(GPU, max_group_invocations=128)
    assert "wide8-split2" in names(product(145, 768, 768), small)
    assert not names(product(145, 768, 768), dataclasses.replace(GPU, max_group_invocations=32))


@pytest.mark.host
@pytest.mark.parametrize("subgroup", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("n", [4, 36, 132, 260, 1000])
def test_workgroups_are_whole_subgroups(subgroup: int, n: int) -> None:
    limits = dataclasses.replace(GPU, subgroup_size=subgroup)
    gemm = product(37, 516, n)
    for tile in wide_tiles(gemm, limits):
        assert tile.lanes_n % subgroup == 0 and tile.lanes <= 1024
        assert tile.groups(gemm)[1] * tile.lanes_n * 4 >= n
        assert tile.parts * tile.span(gemm) >= gemm.k // 4 and tile.span(gemm) % 4 == 0


@pytest.mark.host
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("lanes_n", [8, 32, 64, 128])
def test_sums_fit_shared_memory(rows: int, parts: int, lanes_n: int) -> None:
    tile = WideTile(rows, lanes_n, parts)
    assert rows % tile.chunk == 0 and tile.chunk <= parts
    assert tile.lanes * tile.chunk <= HELD_SUMS
