"""Im2Col and Col2Im: the device against NumPy, the references against loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.convolution.im2col import Col2Im, Im2Col

RNG = np.random.default_rng(41)

#: kernel, strides, pads, dilations and the image.
WINDOWS = {
    "3x3": ((3, 3), (1, 1), (0, 0, 0, 0), (1, 1), (5, 7)),
    "uneven": ((2, 4), (2, 1), (1, 2, 0, 3), (1, 1), (6, 5)),
    "dilated": ((2, 3), (1, 2), (2, 1, 2, 1), (3, 2), (7, 5)),
    "1x1": ((1, 1), (3, 2), (0, 0, 0, 0), (1, 1), (7, 7)),
    "larger than the image": ((5, 3), (1, 1), (2, 1, 2, 1), (1, 1), (1, 2)),
    "gaps": ((1, 2), (3, 4), (0, 1, 1, 1), (1, 1), (8, 9)),
}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("planes", [(1, 3), (2, 5)], ids=str)
def test_both_ways(name: str, planes: tuple[int, int]) -> None:
    *window, image = WINDOWS[name]
    x = normal(*planes, *image)
    op = Im2Col(*window, value=-0.5)
    check_op(op, x, tolerance=0, access=("texel",))
    (columns,) = op.reference(x)
    check_op(Col2Im(*window, image=image), columns, access=("image",))


def test_im2col_of_integers() -> None:
    x = RNG.integers(-100, 100, (1, 3, 5, 6)).astype(np.int8)
    check_op(Im2Col((2, 3), pads=(1, 1, 0, 0), value=7.0), x)


def test_in_fp16() -> None:
    x = normal(1, 3, 5, 6)
    check_op(Im2Col((2, 3), pads=(1, 1, 0, 0), value=0.5), x, precision="fp16")
    check_op(Col2Im((2, 3), image=(5, 6)), normal(1, 18, 16), precision="fp16")


def test_windows_too_large_for_the_loops_of_a_lane() -> None:
    x = normal(1, 2 * 15, 21)
    op = Col2Im((5, 3), image=(7, 9))
    check_op(op, x, access=("storage",), max_loop_rounds=30)
    check_op(op, x, host=True, max_loop_rounds=20)


@pytest.mark.host
@pytest.mark.parametrize("name", WINDOWS)
def test_by_loops(name: str) -> None:
    *window, image = WINDOWS[name]
    kernel, strides, pads, dilations = window
    x = normal(1, 2, *image)
    (columns,) = Im2Col(*window, value=3.0).reference(x)
    (back,) = Col2Im(*window, image=image).reference(columns)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [
        (n + pads[a] + pads[a + 2] - e) // s + 1
        for a, (n, e, s) in enumerate(zip(image, extents, strides, strict=True))
    ]
    total = np.zeros_like(x)
    for c in range(2):
        rows = itertools.product(range(kernel[0]), range(kernel[1]))
        for row, (i, j) in enumerate(rows, start=c * kernel[0] * kernel[1]):
            for column, (p, q) in enumerate(np.ndindex(*sizes)):
                at_y = p * strides[0] + i * dilations[0] - pads[0]
                at_x = q * strides[1] + j * dilations[1] - pads[1]
                inside = 0 <= at_y < image[0] and 0 <= at_x < image[1]
                want = x[0, c, at_y, at_x] if inside else 3.0
                assert columns[0, row, column] == want
                if inside:
                    total[0, c, at_y, at_x] += want
    np.testing.assert_allclose(back, total, rtol=1e-6)


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (Im2Col((3, 3)), (1, 3, 2, 5)),
        (Im2Col((3, 3)), (1, 3, 5)),
        (Im2Col((0, 3)), (1, 3, 5, 5)),
        (Col2Im((2, 2), image=(4, 4)), (1, 8, 8)),
        (Col2Im((2, 2), image=(4, 4)), (1, 6, 9)),
        (Col2Im((2, 2), image=(0, 4)), (1, 8, 9)),
    ],
    ids=str,
)
def test_what_does_not_fit(op, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=op.type_name):
        op.infer(TensorType(shape))


def test_padding_beyond_all_memory() -> None:
    far = 1 << 40
    x = np.array([[[[3, 1, 2]]]], np.float32)
    columns = Im2Col((1, 3), (1, 1), (0, far, 0, far), (1, far)).reference(x)[0]
    assert columns.tolist() == [[[0, 0, 0], [3, 1, 2], [0, 0, 0]]]
    back = Col2Im((1, 3), (1, 1), (0, far, 0, far), (1, far), (1, 3)).reference(columns)[0]
    assert back.tolist() == x.tolist()
