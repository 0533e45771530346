"""Products with weights of a few bits in blocks, against products of the weights as floats."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.quantized.blocks import MatMulNBits, packed_bytes

KINDS = (None, "discrete")


def _case(
    op: MatMulNBits, shape: tuple[int, ...], columns: int, zeros: bool, bias: bool
) -> list[np.ndarray | None]:
    rng = np.random.default_rng(7)
    blocks = -(-op.size // op.block)
    codes = rng.integers(0, 256, (columns, blocks, packed_bytes(op.block, op.bits)), np.uint8)
    return [
        rng.normal(size=shape).astype(np.float32),
        codes,
        rng.uniform(0.5, 2, (columns, blocks)).astype(np.float32),
        rng.integers(0, 1 << op.bits, (columns, blocks)).astype(np.float32) if zeros else None,
        rng.normal(size=columns).astype(np.float32) if bias else None,
    ]


@pytest.mark.host
@pytest.mark.parametrize("bits", range(2, 9))
def test_reference(bits: int) -> None:
    """Codes one by one, out of a row's bytes as one number."""
    op = MatMulNBits(13, 8, bits)
    a, codes, scales, zeros, bias = _case(op, (2, 3, 13), 5, True, True)
    assert a is not None and codes is not None and scales is not None
    assert zeros is not None and bias is not None
    weights = np.zeros((5, 13))
    for row in range(5):
        for k in range(13):
            block = int.from_bytes(codes[row, k // 8].tobytes(), "little")
            code = block >> (k % 8 * bits) & ((1 << bits) - 1)
            weights[row, k] = (code - zeros[row, k // 8]) * scales[row, k // 8]
    (found,) = op.reference(a, codes, scales, zeros, bias)
    assert (found.shape, found.dtype) == ((2, 3, 5), np.float32)
    np.testing.assert_allclose(found, a @ weights.T + bias, rtol=1e-5, atol=1e-4)
    (plain,) = op.reference(a, codes, scales, None, None)
    middle = np.full_like(zeros, 1 << (bits - 1))
    np.testing.assert_array_equal(plain, op.reference(a, codes, scales, middle, None)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("size", "block", "bits"),
    [(64, 32, 4), (44, 32, 4), (48, 16, 4), (20, 8, 4), (264, 128, 4), (36, 16, 2), (132, 64, 2),
     (36, 16, 8), (12, 4, 8), (40, 16, 3), (36, 32, 5), (20, 16, 7)],
)  # fmt: skip
def test_kernel(size: int, block: int, bits: int, kind: str | None) -> None:
    op = MatMulNBits(size, block, bits)
    for shape, columns, zeros, bias in (
        ((size,), 7, False, False),
        ((3, size), 37, True, False),
        ((2, 11, size), 5, True, True),
    ):
        case = _case(op, shape, columns, zeros, bias)
        check_op(op, *case, constants=(1, 2, 3, 4), kind=kind)


@pytest.mark.parametrize(
    ("rows", "precision", "names"),
    [((64,), "fp32", ["blocks"]), ((8,), "fp32", ["blocks"]), ((9,), "fp16", ["blocks"]),
     ((9,), "fp32", ["blocks", "floats"])],
)  # fmt: skip
def test_candidates(rows: tuple[int, ...], precision: str, names: list[str]) -> None:
    """Floats are made of the codes for many rows, and in float32 alone."""
    shape = rows if rows == (64,) else (*rows, 64)
    case = _case(MatMulNBits(64, 32), shape, 7, True, True)
    node = single_op_graph(MatMulNBits(64, 32), case, (1, 2, 3, 4)).nodes[0]
    options = LoweringOptions(precision=precision)
    assert [c.name for c in candidates(node, shared_device().limits, options)] == names


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_half(precision: str, kind: str | None) -> None:
    op = MatMulNBits(68, 32, 4)
    case = _case(op, (3, 68), 19, True, True)
    check_op(op, *case, constants=(1, 2, 3, 4), kind=kind, precision=precision)


@pytest.mark.parametrize("kind", KINDS)
def test_infinities(kind: str | None) -> None:
    """An infinite scale reaches its column alone, of a padded last word nothing is multiplied."""
    op = MatMulNBits(36, 32, 4)
    a, codes, scales, zeros, bias = _case(op, (3, 36), 7, False, True)
    assert a is not None and scales is not None
    scales[2, 1], a[1, 35] = np.inf, np.inf
    check_op(op, a, codes, scales, zeros, bias, constants=(1, 2, 3, 4), kind=kind)


def test_what_kernels_leave_to_the_host() -> None:
    for op in (MatMulNBits(10, 8, 4), MatMulNBits(24, 12, 4), MatMulNBits(12, 2, 4)):
        assert not op.has_words
        case = _case(op, (2, op.size), 3, True, False)
        check_op(op, *case, constants=(1, 2, 3), host=True)
    op = MatMulNBits(32, 32, 4)
    assert op.has_words
    check_op(op, *_case(op, (2, 32), 3, False, False), constants=(1,), host=True)


@pytest.mark.host
@pytest.mark.parametrize(
    ("number", "type_"),
    [
        (0, TensorType((2, 12), DType.FLOAT32)),
        (1, TensorType((3, 2, 3), DType.UINT8)),
        (2, TensorType((3, 1), DType.FLOAT32)),
        (3, TensorType((2, 2), DType.FLOAT32)),
        (4, TensorType((2,), DType.FLOAT32)),
    ],
)
def test_wrong_shapes(number: int, type_: TensorType) -> None:
    op = MatMulNBits(16, 8, 4)
    types = [TensorType.of(x) for x in _case(op, (2, 16), 3, True, True) if x is not None]
    assert op.infer(*types)[0] == TensorType((2, 3), DType.FLOAT32)
    types[number] = type_
    with pytest.raises(ShapeError, match="MatMulNBits"):
        op.infer(*types)
