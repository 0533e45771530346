"""Einsum against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import VknnError

RNG = np.random.default_rng(7)

CASES = {
    "ij": [(2, 3)],
    "ba": [(2, 3)],
    "ii": [(3, 3)],
    "iij->j": [(3, 3, 5)],
    "...ii->...i": [(2, 4, 3, 3)],
    "i...->...": [(3, 4, 5)],
    "...ij->...": [(2, 3, 4)],
    "i,i": [(5,), (5,)],
    "i,j->ji": [(3,), (5,)],
    ",ij->ij": [(), (2, 3)],
    "ij,ij->ij": [(1, 3), (4, 3)],
    "ij,kj->ki": [(2, 3), (5, 3)],
    "bhqd,bhkd->bhqk": [(2, 3, 5, 7), (2, 3, 4, 7)],
    "bqhd,bkhd->bhqk": [(2, 5, 3, 7), (2, 4, 3, 7)],
    "...ij,jk->...ik": [(2, 3, 4), (4, 5)],
    "a...b,b...->...a": [(2, 3, 5, 7), (7, 1, 5)],
    "...,...": [(2, 1, 3), (4, 3)],
    "ij,jk,kl->li": [(2, 3), (3, 5), (5, 7)],
    "i,ij,j,j->": [(3,), (3, 4), (4,), (4,)],
    "Ba,aC": [(2, 3), (3, 4)],
    "ij,jk->ik": [(2, 0), (0, 3)],
}


@pytest.mark.parametrize("equation", CASES)
def test_floats(run, equation: str) -> None:
    given = [RNG.standard_normal(shape).astype(np.float32) for shape in CASES[equation]]
    (found,) = run("Einsum", given, equation=f" {equation.replace('->', ' -> ')} ")
    want = np.einsum(equation, *(g.astype(np.float64) for g in given))
    assert found.shape == want.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max(initial=0)))


def test_an_ellipsis_that_the_result_lacks_is_summed(run) -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    (found,) = run("Einsum", [x], equation="...i->i")
    np.testing.assert_allclose(found, x.sum(axis=(0, 1)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64])
def test_integers_wrap(run, dtype: type) -> None:
    for equation in ("ij,jk->ik", "ij->j", "ij,jk,kl->li"):
        given = [RNG.integers(0, 100, shape).astype(dtype) for shape in ((2, 3), (3, 5), (5, 7))]
        given = given[: equation.count(",") + 1]
        (found,) = run("Einsum", given, equation=equation)
        want = np.einsum(equation, *(g.astype(object) for g in given))
        want = (want % (1 << 8 * np.dtype(dtype).itemsize)).astype(np.uint64).astype(dtype)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("equation", "shapes", "text"),
    [
        ("ij,jk", [(2, 3)], "of 2 operands, not 1"),
        ("ij->ik", [(2, 3)], "no operand has"),
        ("ij->ii", [(2, 3)], "a label twice"),
        ("i->j->i", [(2,)], "several arrows"),
        ("i1->i", [(2, 3)], "cannot read"),
        ("ijk->i", [(2, 3)], "does not suit"),
        ("ij,jk", [(2, 3), (4, 5)], "is 3 and 4"),
    ],
)
def test_what_contradicts_itself(run, equation: str, shapes, text: str) -> None:
    with pytest.raises(VknnError, match=text):
        run("Einsum", [np.zeros(shape, np.float32) for shape in shapes], equation=equation)
