"""Gemm, MatMul, InnerProduct, normalisation, softmax and resizing against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image

from vknn.errors import VknnError
from vknn.formats.layer_errors import Malformed, Unsupported

M, N, K = 5, 7, 6


def operand(rows: int, columns: int, transposed: bool, seed: int, rank: int = 2) -> np.ndarray:
    shape = (columns, rows) if transposed else (rows, columns)
    return image(*((shape[0], 1, shape[1]) if rank == 3 else shape), seed=seed)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
def test_gemm(ta: int, tb: int, rank: int, backend: str) -> None:
    a, b = operand(M, K, bool(ta), 0, rank), operand(K, N, bool(tb), 1, rank)
    check(f"Gemm 2={ta} 3={tb}", a, b, backend=backend)
    check(f"Gemm 2={ta} 3={tb} 0=0.5 1=2.0", a, b, image(N), backend=backend)
    sizes = f"7={M} 8={N} 9={K}"
    check(f"Gemm 2={ta} 3={tb} 4=1 {sizes}", b, backend=backend)
    check(f"Gemm 2={ta} 3={tb} 5=1 {sizes}", a, backend=backend)


def test_gemm_of_constants(backend: str) -> None:
    check(f"Gemm 4=1 5=1 6=0 7={M} 8={N} 9={K}", image(M, N), backend=backend)


@pytest.mark.parametrize("kind", [-1, 0, 1, 2, 3, 4])
def test_gemm_constant_addend(kind: int, backend: str) -> None:
    line = f"Gemm 0=0.5 1=2.0 3=1 5=1 6=1 7={M} 8={N} 9={K} 10={kind}"
    check(line, image(M, K), backend=backend)
    check(f"Gemm 0=0.5 1=2.0 6=1 7={M} 8={N} 10={kind}", image(M, K), image(K, N), backend=backend)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (M,), (M, 1), (M, N), (N,), (1, N)])
def test_gemm_input_addend(shape: tuple[int, ...], backend: str) -> None:
    check("Gemm 0=0.5 1=2.0", image(M, K), image(K, N), image(*shape), backend=backend)
    check(
        f"Gemm 3=1 5=1 1=0.5 7={M} 8={N} 9={K}", image(M, K), image(*shape, seed=2), backend=backend
    )


def test_gemm_square_addend_is_per_column(backend: str) -> None:
    check("Gemm", image(M, K), image(K, M), image(M), backend=backend)


@pytest.mark.parametrize("flags", ["11=1", "14=1", "11=1 14=1", "12=1 13=1 20=8 21=8 22=8"])
def test_gemm_output(flags: str, backend: str) -> None:
    check(f"Gemm {flags}", image(M, K), image(K, N), backend=backend)


@pytest.mark.parametrize("constants", range(8), ids=lambda i: f"{i:03b}")
@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
def test_gemm_constants_of_all_kinds(ta: int, tb: int, constants: int, backend: str) -> None:
    """Each matrix constant or not, the result transposed or with its rows as channels."""
    ca, cb, cc = constants & 1, constants >> 1 & 1, constants >> 2
    line = f"Gemm 2={ta} 3={tb} 4={ca} 5={cb} 6={cc} 7={M} 8={N} 9={K} 14={ta} 11={tb}"
    a, b = operand(M, K, bool(ta), 0, 2 + tb), operand(K, N, bool(tb), 1, 2 + tb)
    given = [x for x, constant in ((a, ca), (b, cb)) if not constant]
    if given or cc:  # ncnn wants an input where C is none that is constant
        check(f"{line} 0=2.1 10=-1", *given, backend=backend)
    for kind in {constants % 5, (ta + 2 * tb + 3 * cc) % 5}:
        inputs = given if cc else [*given, addend(kind)]
        check(f"{line} 0=2.1 1=0.6 10={kind}", *inputs, backend=backend)


def addend(kind: int) -> np.ndarray:
    """A matrix C that lies as this broadcast type says."""
    return image(*((1,), (M,), (M, 1), (M, N), (1, N))[kind])


# --- Gemm in int8 -------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
def test_gemm_int8(ta: int, tb: int, rank: int, backend: str) -> None:
    a, b = operand(M, K, bool(ta), 0, rank), operand(K, N, bool(tb), 1, rank)
    line = f"Gemm 0=1.7 2={ta} 3={tb} 7={M} 8={N} 9={K} 13={ta} 14={tb} 11={rank - 2} 18=2"
    check(f"{line} 6=1 10=-1", a, b, backend=backend)
    check(f"{line} 6=1 10=-1 4=1", b, backend=backend)
    check(f"{line} 6=1 10=-1 5=1", a, backend=backend)
    check(f"{line} 6=1 10=3 4=1 5=1", backend=backend)
    kind = (ta + 2 * tb + rank) % 5
    check(f"{line} 1=0.7", a, b, addend(kind), backend=backend)
    check(f"{line} 1=0.7 6=1 10={kind} 5=1", a, backend=backend)


@pytest.mark.parametrize("term", ["1", "3", "100"])
def test_gemm_int8_terms(term: str, backend: str) -> None:
    check(f"Gemm 18={term}", image(M, K), image(K, N), backend=backend)


@pytest.mark.parametrize("bits", [4, 6, 8])
@pytest.mark.parametrize("form", [0, 1, 2, 10, 11, 12])
def test_gemm_in_blocks(bits: int, form: int, backend: str) -> None:
    """Numbers of few bits; a row is some blocks and a part of one."""
    for k in (5, 70, 131):
        line = f"Gemm 3=1 5=1 7={M} 8={N} 9={k} 18={100 * bits + form}"
        check(line, image(M, k), backend=backend)
        check(f"{line} 0=0.5 1=2.0 6=1 10=3", image(M, k), backend=backend)
        check(f"{line} 6=1 10=-1", image(M, 1, k), backend=backend)


@pytest.mark.parametrize("form", [0, 12])
def test_gemm_in_blocks_of_eight_bits_takes_all_forms(form: int, backend: str) -> None:
    line = f"Gemm 3=1 5=1 8={N} 9=70 18={800 + form} 6=1 10=4"
    check(f"{line} 2=1 14=1", image(70, M), backend=backend)
    check(f"{line} 11=1 12=1 13=1", image(M, 70), backend=backend)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Gemm 18=4", "18"),
        ("Gemm 18=403", "403"),
        ("Gemm 18=500", "500"),
        ("Gemm 4=1 7=5 9=6 18=400", "blocks"),
        ("Gemm 3=1 5=1 8=7 9=6 14=1 18=400", "blocks"),
    ],
    ids=lambda text: text.replace(" ", "_"),
)
def test_gemm_refused(line: str, words: str) -> None:
    with pytest.raises((Malformed, Unsupported), match=words):
        check(line, image(M, K), image(K, N))


def test_gemm_int8_without_int8() -> None:
    floats = {"B": image(K, N)}
    with pytest.raises(VknnError, match="stored as int8"):
        check(f"Gemm 5=1 6=1 8={N} 9={K} 10=-1 18=2", image(M, K), weights=floats)


# --- MatMul -------------------------------------------------------------------------------------

PRODUCTS = [
    ((13,), (13,)),
    ((5,), (5, 6)),
    ((13,), (12, 13, 7)),
    ((6,), (3, 5, 6, 4)),
    ((6, 5), (5,)),
    ((3, 4, 7), (7,)),
    ((5, 4, 3, 8), (8,)),
    ((10, 14), (14, 5)),
    ((4, 5), (3, 5, 6)),
    ((4, 5), (3, 2, 5, 4)),
    ((5, 3, 7), (7, 4)),
    ((3, 2, 5, 4), (4, 7)),
    ((5, 3, 7), (5, 7, 2)),
    ((1, 3, 7), (5, 7, 2)),
    ((5, 3, 7), (1, 7, 2)),
    ((5, 3, 7), (4, 1, 7, 2)),
    ((1, 5, 3, 7), (4, 1, 7, 2)),
    ((4, 5, 3, 8), (4, 5, 8, 4)),
    ((4, 1, 3, 8), (5, 8, 4)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize(("a", "b"), PRODUCTS, ids=str)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], backend: str) -> None:
    check("MatMul", image(*a), image(*b, seed=1), backend=backend)
    turned = (*b[:-2], b[-1], b[-2]) if len(b) > 1 else b
    check("MatMul 0=1", image(*a), image(*turned, seed=1), backend=backend)


# --- InnerProduct -------------------------------------------------------------------------------

ACTIVATIONS = ["9=0", "9=1", "9=2 -23310=1,0.3", "9=3 -23310=2,-0.5,0.7", "9=4", "9=5"]
ACTIVATIONS.append("9=6 -23310=2,0.2,0.6")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("term", ["", "8=2"], ids=["float", "int8"])
def test_inner_product_activations(term: str, activation: str, backend: str) -> None:
    check(f"InnerProduct 0=7 1=1 2=168 {activation} {term}", image(4, 6), backend=backend)
    check(f"InnerProduct 0=7 1=1 2=42 {activation} {term}", image(4, 6), backend=backend)


@pytest.mark.parametrize("term", ["", "8=1", "8=101"], ids=["float", "int8", "int8 out"])
@pytest.mark.parametrize(
    "shape", [(1,), (24,), (4, 6), (2, 3, 4), (2, 3, 2, 2), (1, 1, 24), (1, 24), (3, 1, 1)]
)
def test_inner_product(shape: tuple[int, ...], term: str, backend: str) -> None:
    size = int(np.prod(shape))
    for outputs, bias in ((1, 1), (8, 0)):
        line = f"InnerProduct 0={outputs} 1={bias} 2={outputs * size} {term}"
        check(line, image(*shape), backend=backend)


@pytest.mark.parametrize("term", ["", "8=1"], ids=["float", "int8"])
@pytest.mark.parametrize("shape", [(5, 12), (7, 1), (3, 7)])
def test_inner_product_of_rows(shape: tuple[int, ...], term: str, backend: str) -> None:
    for outputs, bias in ((1, 1), (8, 0)):
        line = f"InnerProduct 0={outputs} 1={bias} 2={outputs * shape[1]} {term}"
        check(line, image(*shape), backend=backend)


@pytest.mark.parametrize("storage", ["fp16", "table"])
def test_inner_product_storage(storage: str, backend: str) -> None:
    line = "InnerProduct 0=7 1=1 2=168"
    check(line, image(4, 6), storage=storage, backend=backend)  # type: ignore[arg-type]


# --- normalisation ------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", [0, 1])
@pytest.mark.parametrize(
    ("size", "shape"),
    [
        (7, (7,)),
        (7, (5, 7)),
        (7, (3, 5, 7)),
        (35, (3, 5, 7)),
        (7, (3, 2, 5, 7)),
        (35, (3, 2, 5, 7)),
        (70, (3, 2, 5, 7)),
        (7, (3, 1, 7)),
    ],
)
def test_layer_norm(size: int, shape: tuple[int, ...], affine: int, backend: str) -> None:
    check(f"LayerNorm 0={size} 1=0.01 2={affine}", image(*shape), backend=backend)


@pytest.mark.parametrize("region", [0, 1])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 9])
def test_lrn(region: int, size: int, backend: str) -> None:
    line = f"LRN 0={region} 1={size} 2=0.7 3=0.6 4=1.3"
    check(line, image(7, 6, 5), backend=backend)


@pytest.mark.parametrize("shape", [(7,), (5, 7), (3, 5, 7), (3, 2, 5, 7)])
def test_softmax(shape: tuple[int, ...], backend: str) -> None:
    check("Softmax", image(*shape), backend=backend)
    for axis in range(-len(shape), len(shape)):
        check(f"Softmax 0={axis} 1=1", image(*shape), backend=backend)


# --- resizing -----------------------------------------------------------------------------------

SIZES = [
    "1=2.0 2=2.0",
    "1=0.5 2=0.5",
    "1=1.7 2=2.3",
    "1=0.7 2=0.45",
    "3=5 4=17",
    "3=9 4=10",
    "3=13 4=0 1=1.5 2=1.3",
]


@pytest.mark.parametrize("kind", ["0=1", "0=2", "0=3", "0=2 6=1", "0=3 6=1", "0=1 6=1"])
@pytest.mark.parametrize("size", SIZES)
def test_interp(kind: str, size: str, backend: str) -> None:
    check(f"Interp {kind} {size}", image(3, 9, 10), backend=backend)


@pytest.mark.parametrize("kind", ["0=1", "0=2", "0=3", "0=2 6=1"])
@pytest.mark.parametrize("size", ["2=2.0", "2=0.6", "3=4 4=13", "1=3.0 2=1.3"])
def test_interp_rows(kind: str, size: str, backend: str) -> None:
    check(f"Interp {kind} {size}", image(3, 10), backend=backend)


@pytest.mark.parametrize("kind", ["0=1", "0=2", "0=3"])
@pytest.mark.parametrize("size", ["3=4 4=5", "1=3.0 2=2.0"])
def test_interp_vector(kind: str, size: str, backend: str) -> None:
    check(f"Interp {kind} {size}", image(6), backend=backend)


@pytest.mark.parametrize("kind", ["0=1", "0=2", "0=3", "0=2 6=1"])
def test_interp_to_another_blob(kind: str, backend: str) -> None:
    check(f"Interp {kind} 5=1", image(3, 9, 10), image(2, 13, 7), backend=backend)
    check(f"Interp {kind} 5=1 1=2.0 2=0.5", image(3, 9, 10), image(5, 17), backend=backend)


def test_interp_by_expression(backend: str) -> None:
    check('Interp 0=2 9="*(0w,2),+(0h,3)"', image(3, 9, 10), backend=backend)
