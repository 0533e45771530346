"""Bands of matrices, one-hot vectors, indices of non-zero elements."""

from __future__ import annotations

import numpy as np
import pytest
from tests.coreml_cases import case, check, values
from tests.coreml_writer import layer, run, run_everywhere

from vknn.errors import ShapeError


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 5, 3), (1, 2, 4, 1), (2, 1, 2, 3, 4)])
def test_parts_of_matrices(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    x.reshape(-1)[::7] = np.nan
    x[..., 0, 0] = np.inf
    rows, columns = shape[-2:]
    below = np.arange(rows)[:, None] - np.arange(columns)
    cases = []
    for k in range(-rows - 1, columns + 2):
        cases.append(case("lowerTriangular", np.tril(x, k), k=k))
        cases.append(case("upperTriangular", np.triu(x, k), k=k))
    for lower in (-1, 0, 1, 9):
        for upper in (-5, 0, 2, 9):
            band = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
            wanted = np.where(band, x, np.float32(0))
            cases.append(case("matrixBandPart", wanted, numLower=lower, numUpper=upper))
    check({"x": x}, cases, tolerance=0)


def test_vectors_are_no_matrices() -> None:
    for kind in ("lowerTriangular", "upperTriangular", "matrixBandPart"):
        with pytest.raises(ShapeError, match=kind):
            run(layer(kind), {"x": values(4)})


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (2, 1, 3), (1, 2, 3, 2)])
def test_one_hot(shape: tuple[int, ...]) -> None:
    """Indices out of range, those below 0 too, give no hit."""
    x = np.random.default_rng(len(shape)).integers(-2, 6, shape).astype(np.float32)
    cases = []
    for axis in range(-len(shape) - 1, len(shape) + 1):
        hot = np.stack([x == k for k in range(4)], axis)
        cases.append(case("oneHot", hot, oneHotVectorSize=4, axis=axis, onValue=1.0))
        signed = np.where(hot, np.float32(2.5), np.float32(-1))
        numbers = {"onValue": 2.5, "offValue": -1.0}
        cases.append(case("oneHot", signed, oneHotVectorSize=4, axis=axis, **numbers))
    check({"x": x}, cases, tolerance=0)
    deep = np.stack([x == k for k in range(6)], -1)
    feeds = {"x": x, "size": np.float32([6])}
    dynamic = case("oneHot", deep, "x", "size", oneHotVectorSize=2, axis=-1, onValue=1.0)
    check(feeds, [dynamic], tolerance=0)


def test_one_hot_refused() -> None:
    for params in ({"axis": 0}, {"oneHotVectorSize": 3, "axis": 2}, {"oneHotVectorSize": 1 << 40}):
        with pytest.raises(ShapeError, match="oneHot"):
            run(layer("oneHot", **params), {"x": values(3)})


@pytest.mark.parametrize("shape", [(1,), (9,), (3, 4), (2, 3, 2), (1, 3, 2, 2), (2, 1, 2, 3, 2)])
def test_where_not_zero(shape: tuple[int, ...]) -> None:
    x = np.rint(values(*shape))
    for given in (x, np.zeros_like(x), np.ones_like(x)):
        found = run_everywhere(layer("whereNonZero"), {"x": given})
        wanted = np.argwhere(given).astype(np.float32)
        assert found["y"].shape == wanted.shape
        np.testing.assert_array_equal(found["y"], wanted)


def test_what_follows_where_not_zero() -> None:
    x = np.array([[0, 2, 0], [3, 0, np.nan]], np.float32)
    net = [
        layer("whereNonZero", ("x",), ("places",), name="places"),
        layer("gatherND", ("x", "places"), ("found",), name="found"),
        layer("getShape", ("places",), ("shape",), name="shape"),
        layer("fillDynamic", ("shape",), ("ones",), name="ones", value=1.0),
        layer("addBroadcastable", ("places", "ones"), ("more",), name="more"),
    ]
    found = run_everywhere(net, {"x": x}, ("found", "shape", "more"))
    np.testing.assert_array_equal(found["found"], np.float32([2, 3, np.nan]))
    assert found["shape"].tolist() == [3, 2]
    assert found["more"].tolist() == [[1, 2], [2, 1], [2, 3]]
