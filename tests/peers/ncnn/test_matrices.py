"""Gemm, attention, normalisation, softmax and resizing against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image

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


@pytest.mark.parametrize("shape", [(1,), (M,), (M, 1), (M, N), (N,), (1, N)])
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


# --- attention ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [None, (4, 4), (2, 4, 4)])
def test_self_attention(mask: tuple[int, ...] | None, backend: str) -> None:
    inputs = [image(4, 6)] + ([image(*mask, seed=5)] if mask else [])
    check(f"MultiHeadAttention 0=8 1=2 2=48 3=6 4=6 5={int(bool(mask))}", *inputs, backend=backend)


@pytest.mark.parametrize("mask", [False, True])
def test_cross_attention(mask: bool, backend: str) -> None:
    extra = [image(4, 5, seed=5)] if mask else []
    line = f"MultiHeadAttention 0=8 1=4 2=64 5={int(mask)}"
    check(line, image(4, 8), image(5, 8, seed=1), *extra, backend=backend)
    line = f"MultiHeadAttention 0=8 1=2 2=48 3=7 4=9 5={int(mask)} 6=0.3"
    inputs = (image(4, 6), image(5, 7, seed=1), image(5, 9, seed=2))
    check(line, *inputs, *extra, backend=backend)


@pytest.mark.parametrize("storage", ["fp16", "table"])
def test_attention_storage(storage: str, backend: str) -> None:
    line = "MultiHeadAttention 0=8 1=2 2=64"
    check(line, image(4, 8), storage=storage, backend=backend)  # type: ignore[arg-type]


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
