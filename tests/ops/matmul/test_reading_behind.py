"""Shared-memory tiles that read on behind the last tile of k, as plans for AMD's GPUs have them."""

from __future__ import annotations

import pytest
from tests.ops.convolution import test_split_k as split
from tests.ops.convolution.test_split_k import tiny as tiny  # a fixture
from tests.ops.matmul import test_cooperative_matrix as cooperative
from tests.ops.matmul import test_shared_memory_tiles as shared
from tests.ops.matmul.test_cooperative_matrix import matrices as matrices  # a fixture

from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.ops.matmul import MatMul

pytestmark = pytest.mark.long

CONVOLUTIONS = ("3x3", "1x1", "whole rounds", "whole rounds of 1x1", "whole rounds of 3-D")
COOPERATIVE = ("both blocks", "long rounds", "long rounds of 1x1", "several taps a step")
PRODUCTS = ("vec4s", "several steps", "one column")


@pytest.fixture(autouse=True)
def amd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants of tiles as on a machine that loads into scalar registers."""
    spec = SharedMemoryTile.spec

    def spec_of_amd(
        tile: SharedMemoryTile, down_a: bool, down_b: bool, whole: bool, scalar: bool = False
    ) -> dict[str, int]:
        found = spec(tile, down_a, down_b, whole, scalar=True)
        assert found["AHEAD"] in (0, 2)
        return found

    monkeypatch.setattr(SharedMemoryTile, "spec", spec_of_amd)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    a, b = shared.PRODUCTS[name]
    shared.check(MatMul(), shared.floats(*a), shared.floats(*b), constants=(1,))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    op, x, w = shared.CONVOLUTIONS[name]
    arrays = shared.floats(*x), shared.floats(*w), shared.floats(w[0])
    shared.check(op, *arrays, constants=(1, 2))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["3x3", "whole rounds", "whole rounds of 1x1"])
def test_parts_of_k(name: str) -> None:
    op, *arrays = split.case(name)
    split.check(op, *arrays, constants=(1, 2))


@pytest.mark.usefixtures("matrices")
@pytest.mark.parametrize("name", COOPERATIVE)
def test_cooperative_convolutions(name: str) -> None:
    op, x, w = cooperative.CONVOLUTIONS[name]
    arrays = cooperative.floats(*x), cooperative.floats(*w), cooperative.floats(w[0])
    cooperative.check(op, *arrays, constants=(1, 2))


@pytest.mark.usefixtures("matrices")
@pytest.mark.parametrize("name", ["several steps", "long rounds"])
def test_cooperative_products(name: str) -> None:
    a, b = cooperative.PRODUCTS[name]
    cooperative.check(MatMul(), cooperative.floats(*a), cooperative.floats(*b), constants=(1,))
