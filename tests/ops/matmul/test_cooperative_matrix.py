"""Products by cooperative matrices against NumPy where the device has them, and their plans."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.lowering.limits import DISCRETE, check_limits

from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kit.parameters import parameters_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid
from vknn.ops.matmul import MatMul
from vknn.plan import CooperativeMatrix, DeviceLimits

RNG = np.random.default_rng(3)
check = functools.partial(
    check_op, kind="discrete", access=("storage",), only="cooperative", precision="fp16"
)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def matrices() -> None:
    """Skips where the device has no matrices that the kernels could use."""
    limits = shared_device().limits
    graph = single_op_graph(MatMul(), [floats(64, 8), floats(8, 64)])
    gpu = dataclasses.replace(limits, kind="discrete")
    found = candidates(graph.nodes[0], gpu, LoweringOptions(precision="fp16"))
    if not any(c.name.startswith("cooperative") for c in found):
        pytest.skip(f"{shared_device().name} has no cooperative matrices of float16")


PRODUCTS = {
    "primes": ((5, 7), (7, 3)),
    "vec4s": ((7, 20), (20, 12)),
    "several steps": ((37, 67), (67, 41)),
    "both blocks": ((67, 36), (36, 71)),
    "whole rounds": ((37, 96), (96, 71)),
    "long rounds": ((37, 256), (256, 71)),
    "long rounds, narrow": ((9, 128), (128, 20)),
    "long rounds of scalars": ((33, 64), (64, 67)),
    "batches": ((3, 5, 8), (3, 8, 12)),
    "batches of long rounds": ((2, 5, 128), (128, 36)),
}


@pytest.mark.usefixtures("matrices")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("constants", [(), (1, 2)], ids=["none", "b and bias"])
def test_products(name: str, constants: tuple[int, ...]) -> None:
    a, b = PRODUCTS[name]
    check(MatMul(), floats(*a), floats(*b), floats(b[-1]), constants=constants)


@pytest.mark.usefixtures("matrices")
def test_transposed_products_and_epilogues() -> None:
    check(MatMul(True, True), floats(11, 9), floats(13, 11))
    op = Fused(MatMul(), (FusedStep(Relu()), FusedStep(Add(), operand=0)))
    check(op, floats(9, 12), floats(12, 16), floats(16), floats(9, 16))
    check(op, floats(9, 13), floats(13, 15), floats(15), floats(9, 15), constants=(1, 2))


def conv(axes: int, stride: int = 1, pad: int = 0, dilation: int = 1, group: int = 1) -> Conv:
    return Conv((stride,) * axes, (pad,) * 2 * axes, (dilation,) * axes, group)


CONVOLUTIONS = {
    "1x1": (conv(2), (2, 7, 5, 5), (6, 7, 1, 1)),
    "3x3": (conv(2, pad=1), (1, 5, 7, 6), (11, 5, 3, 3)),
    "stride and dilation": (Conv((2, 1), (0, 2, 3, 1), (1, 3), 1), (2, 3, 7, 9), (5, 3, 4, 2)),
    "groups": (conv(2, pad=1, group=2), (1, 8, 5, 5), (24, 4, 3, 3)),
    "3-D": (conv(3, pad=1), (1, 2, 3, 4, 5), (5, 2, 3, 3, 3)),
    "both blocks": (conv(2, pad=1), (1, 7, 11, 13), (71, 7, 3, 3)),
    "rounds of a tap": (conv(2, stride=2, pad=1), (1, 64, 7, 9), (37, 64, 3, 3)),
    "whole rounds of 1x1": (conv(2), (2, 32, 5, 5), (71, 32, 1, 1)),
    "whole rounds of groups": (conv(2, pad=1, group=2), (1, 64, 5, 5), (24, 32, 3, 3)),
    "long rounds": (conv(2, 2, 2, 2), (1, 128, 9, 7), (37, 128, 3, 2)),
    "long rounds of 1x1": (conv(2), (2, 128, 5, 5), (71, 128, 1, 1)),
    "long rounds of groups": (conv(2, pad=1, group=2), (1, 128, 5, 5), (24, 64, 3, 3)),
    "long rounds in 3-D": (conv(3, pad=1), (1, 64, 3, 4, 5), (5, 64, 3, 3, 3)),
    "taps counted": (conv(2, 2, 3), (1, 3, 19, 17), (67, 3, 7, 7)),
    "several taps a step": (conv(2, pad=1), (1, 12, 7, 5), (37, 12, 3, 3)),
}


@pytest.mark.usefixtures("matrices")
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    op, x, w = CONVOLUTIONS[name]
    check(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2))


@pytest.mark.usefixtures("matrices")
def test_a_convolution_with_an_epilogue_and_run_time_weights() -> None:
    op, x, w = CONVOLUTIONS["3x3"]
    arrays = floats(*x), floats(*w), floats(w[0])
    (y,) = op.reference(*arrays)
    check(Fused(op, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0))), *arrays, floats(*y.shape))


def gpu(subgroup: int, *cooperative: CooperativeMatrix, **changes: object) -> DeviceLimits:
    features = {"fp16_storage", "fp16_arithmetic", "cooperative_matrix"}
    return dataclasses.replace(
        DISCRETE,
        subgroup_size=subgroup,
        features=DISCRETE.features | features,
        cooperative=cooperative,
        **changes,  # type: ignore[arg-type]
    )


SQUARE = CooperativeMatrix(16, 16, 16)
HALF = LoweringOptions(precision="fp16")
IMAGES = [np.ones((1, 64, 9, 9), np.float32), np.ones((64, 64, 3, 3), np.float32)]
SQUARES = [np.ones((200, 64), np.float32), np.ones((64, 128), np.float32)]


def offered(op: Op, arrays: list[np.ndarray], limits: DeviceLimits, options=HALF) -> list[str]:
    graph = single_op_graph(op, arrays, (1,))
    found = sorted(candidates(graph.nodes[0], limits, options), key=lambda c: c.cost)
    return [c.name for c in found]


@pytest.mark.host
@pytest.mark.parametrize("subgroup", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize(
    "matrix",
    [SQUARE, CooperativeMatrix(8, 8, 8), CooperativeMatrix(8, 16, 16), CooperativeMatrix(16, 8, 8)],
    ids=str,
)
def test_tiles_for_any_subgroup(subgroup: int, matrix: CooperativeMatrix) -> None:
    limits = gpu(subgroup, matrix)
    for op, arrays in ((MatMul(), SQUARES), (conv(2, pad=1), IMAGES)):
        graph = single_op_graph(op, arrays, (1,))
        names = [n for n in offered(op, arrays, limits) if n.startswith("cooperative")]
        assert "cooperative32x32" in names
        for name in names:
            options = dataclasses.replace(HALF, algorithm=name)
            plan = lower(graph, limits, options)
            check_limits(plan, limits)
            (dispatch,) = [d for d in plan.dispatches if ("COOPERATIVE", "1") in d.variant]
            numbers = {key: int(value) for key, value in dispatch.specialization}
            spec = parameters_of(dispatch.kernel).named(numbers)
            lanes = numbers[0]
            height, width = spec["ROWS"] * spec["LANES_M"], spec["COLS"] * spec["LANES_N"]
            assert (height, 4 * width) == tuple(map(int, name[11:].split("x")))
            assert lanes == spec["LANES_M"] * spec["LANES_N"] and lanes % subgroup == 0
            # Each lane loads as much as any other; each subgroup computes as much as any other.
            depth = spec["DEPTH"]
            assert height * depth % lanes == 0 and 4 * depth * width % lanes == 0
            assert height % lanes == 0 or lanes % height == 0
            assert depth % max(1, lanes // height) == 0 and 4 * depth % spec["MATRIX_K"] == 0
            rows = spec["MATRIX_M"] * spec["MATRICES_M"]
            columns = spec["MATRIX_N"] * spec["MATRICES_N"]
            assert height // rows * (4 * width // columns) == lanes // subgroup
            # Rows of matrices begin at multiples of 16 bytes.
            assert spec["A_STRIDE"] % 2 == spec["B_STRIDE"] % 2 == 0


@pytest.mark.host
def test_devices_that_are_offered_cooperative_tiles() -> None:
    first = offered(MatMul(), SQUARES, gpu(32, SQUARE))[0]
    assert first.startswith("cooperative")
    none = [
        offered(MatMul(), SQUARES, gpu(32, SQUARE), LoweringOptions()),
        offered(MatMul(), SQUARES, gpu(32)),
        offered(MatMul(), SQUARES, gpu(32, dataclasses.replace(SQUARE, sums="float16"))),
        offered(MatMul(), SQUARES, gpu(32, dataclasses.replace(SQUARE, factors="int8"))),
        offered(MatMul(), SQUARES, gpu(32, CooperativeMatrix(64, 64, 64))),
        offered(MatMul(), SQUARES, gpu(32, SQUARE, kind="cpu")),
        offered(
            MatMul(),
            SQUARES,
            gpu(32, SQUARE),
            dataclasses.replace(HALF, disabled=frozenset(("cooperative",))),
        ),
    ]
    assert not any(name.startswith("cooperative") for names in none for name in names)
    assert any(n.startswith("cooperative") for n in offered(conv(2), IMAGES, gpu(64, SQUARE)))


def tile_of(channels: int, limits: DeviceLimits, constants: tuple[int, ...] = (1,)) -> str:
    """Depth of the small tile of a convolution, and where its columns are."""
    arrays = [np.ones((1, channels, 9, 9), np.float32), np.ones((64, channels, 3, 3), np.float32)]
    graph = single_op_graph(conv(2, pad=1), arrays, constants)
    plan = lower(graph, limits, dataclasses.replace(HALF, algorithm="cooperative32x32"))
    check_limits(plan, limits)
    (dispatch,) = [d for d in plan.dispatches if ("COOPERATIVE", "1") in d.variant]
    numbers = {key: int(value) for key, value in dispatch.specialization}
    spec = parameters_of(dispatch.kernel).named(numbers)
    return f"{spec['DEPTH']} {'memory' if spec['COLUMNS_IN_MEMORY'] else 'shared'}"


@pytest.mark.host
def test_columns_in_memory() -> None:
    """Rounds are as long as the channels and the device allow; elsewhere all is shared."""
    able = gpu(32, SQUARE)
    assert [tile_of(n, able) for n in (384, 128, 64, 32)] == [
        *("32 memory", "32 memory", "16 memory", "8 memory")
    ]
    assert tile_of(44, able) == tile_of(128, able, ()) == "8 shared"
    little = gpu(32, SQUARE, shared_memory=12 << 10)
    assert tile_of(128, little) == "16 memory"
