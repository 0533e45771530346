"""Quantized operators of onnxruntime in the modes that the test vectors leave out, by formula.

Formulas: onnxruntime's descriptions of the operators; results of onnxruntime 1.32 were compared
when these were written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.helpers import shared_device
from tests.peers.onnx.one_node import run, session_of

from vknn.session import Session

F = np.float32


def ints(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def stored(real: np.ndarray, scale: Any, zero: Any, dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(np.rint(real / scale) + int(zero), info.min, info.max).astype(dtype)


def near(found: np.ndarray, wanted: np.ndarray, share: float = 0.02) -> None:
    """Equal but for a share of steps of one, where a float lies next to a half."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    far = np.abs(found.astype(int) - wanted.astype(int))
    assert far.max(initial=0) <= 1 and (far > 0).mean() <= share


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("zeros", [True, False])
def test_sums_products_and_tables(dtype: Any, zeros: bool, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(1)
    a, b = ints(rng, dtype, 7, 11, 13), ints(rng, dtype, 11, 1)
    z = [dtype(v) for v in (3, 100, 7)] if zeros else [None] * 3
    za, zb, zy = (0 if v is None else int(v) for v in z)
    real_a, real_b = (a.astype(float) - za) * 0.031, (b.astype(float) - zb) * 0.017
    given = [a, F(0.031), z[0], b, F(0.017), z[1], F(0.043), z[2]]
    fed = (0, 3)
    found = run(tmp_path, backend, "QLinearAdd", given, fed=fed)[0]
    near(found, stored(real_a + real_b, 0.043, zy, dtype))
    found = run(tmp_path, backend, "QLinearMul", given, fed=fed)[0]
    near(found, stored(real_a * real_b, 0.043, zy, dtype))
    one = [a, F(0.031), z[0], F(0.01), z[2]]
    found = run(tmp_path, backend, "QLinearSigmoid", one)[0]
    near(found, stored(1 / (1 + np.exp(-real_a)), 0.01, zy, dtype))
    found = run(tmp_path, backend, "QLinearLeakyRelu", one, alpha=0.3)[0]
    near(found, stored(np.where(real_a < 0, 0.3 * real_a, real_a), 0.01, zy, dtype))
    found = run(tmp_path, backend, "QLinearLeakyRelu", one, fed=(0, 1, 3), alpha=0.3)[0]
    near(found, stored(np.where(real_a < 0, 0.3 * real_a, real_a), 0.01, zy, dtype))


@pytest.mark.parametrize("opset", [11, 13])
def test_softmax(opset: int, tmp_path: Path, backend: str) -> None:
    x = ints(np.random.default_rng(2), np.uint8, 3, 5, 7)
    given = [x, F(0.07), np.uint8(3), F(1 / 256), np.uint8(0)]
    real = (x.astype(float) - 3) * 0.07
    axes = (1, 2) if opset < 13 else (1,)
    powers = np.exp(real - real.max(axes, keepdims=True))
    wanted = stored(powers / powers.sum(axes, keepdims=True), 1 / 256, 0, np.uint8)
    near(run(tmp_path, backend, "QLinearSoftmax", given, axis=1, opset=opset)[0], wanted)


def test_choices_and_joins(tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(3)
    a, b = ints(rng, np.int8, 5, 7), ints(rng, np.int8, 7)
    choice = rng.random((5, 1)) > 0.5
    real_a, real_b = (a.astype(float) + 4) * 0.03, (b.astype(float) - 9) * 0.05
    given = [choice, a, F(0.03), np.int8(-4), b, F(0.05), np.int8(9), F(0.04), np.int8(2)]
    found = run(tmp_path, backend, "QLinearWhere", given, fed=(0, 1, 4))[0]
    near(found, stored(np.where(choice, real_a, real_b), 0.04, 2, np.int8))
    given = [F(0.04), np.int8(2), a, F(0.03), np.int8(-4), a[:, :3], F(0.04), np.int8(2)]
    found = run(tmp_path, backend, "QLinearConcat", given, fed=(2, 5), axis=-1)[0]
    near(found, np.concatenate([stored(real_a, 0.04, 2, np.int8), a[:, :3]], 1))


@pytest.mark.parametrize("last", [0, 1])
def test_means(last: int, tmp_path: Path, backend: str) -> None:
    x = ints(np.random.default_rng(4), np.uint8, 2, 5, 7, 3)
    axes = (1, 2) if last else (2, 3)
    real = (x.astype(float) - 11) * 0.031
    given = [x, F(0.031), np.uint8(11), F(0.017), np.uint8(77)]
    wanted = stored(real.mean(axes, keepdims=True), 0.017, 77, np.uint8)
    near(run(tmp_path, backend, "QLinearGlobalAveragePool", given, channels_last=last)[0], wanted)
    found = run(tmp_path, backend, "QLinearReduceMean", given, axes=list(axes), keepdims=1)[0]
    near(found, wanted)
    sums = run(tmp_path, backend, "ReduceSumInteger", [x], axes=[1, -1], keepdims=0)[0]
    assert sums.dtype == np.uint32 and sums.tolist() == x.sum((1, 3), dtype=int).tolist()


def test_windows_channels_last(tmp_path: Path, backend: str) -> None:
    x = ints(np.random.default_rng(5), np.int8, 1, 13, 11, 5)
    given = [x, F(0.0513), None, F(0.0317), np.int8(4)]
    more = {"kernel_shape": [2, 3], "strides": [2, 1], "channels_last": 1}
    found = run(tmp_path, backend, "QLinearAveragePool", given, **more)[0]
    rows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (1, 2))[:, ::2]
    near(found, stored(rows.mean((-1, -2)) * 0.0513, 0.0317, 4, np.int8))


def test_windows_beyond_the_padding_count_whole(tmp_path: Path, backend: str) -> None:
    x = np.array([10, 20, 30, 40, 50, 60], np.uint8).reshape(1, 1, 1, 6)
    given = [x, F(1), np.uint8(5), F(1), np.uint8(5)]
    more = {"kernel_shape": [1, 3], "strides": [1, 2], "ceil_mode": 1}
    found = run(tmp_path, backend, "QLinearAveragePool", given, **more, count_include_pad=1)[0]
    assert found.reshape(-1).tolist() == [20, 40, 38]  # (45 + 55) / 3 + 5, as in onnxruntime
    found = run(tmp_path, backend, "QLinearAveragePool", given, **more)[0]
    assert found.reshape(-1).tolist() == [20, 40, 55]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_products(columns: bool, dtype: Any, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(6)
    a, b = ints(rng, np.uint8, 3, 5, 13), ints(rng, dtype, 13, 7)
    scale = rng.random(7).astype(F) if columns else F(0.02)
    zero = rng.integers(0, 9, 7).astype(dtype) if columns else dtype(3)
    bias = rng.standard_normal(7).astype(F)
    whole = b.astype(float) - zero
    given = [a, b, F(0.1), scale, np.uint8(5), zero, bias]
    wanted = (a.astype(float) - 5) @ whole * 0.1 * scale + bias
    found = run(tmp_path, backend, "MatMulIntegerToFloat", given)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    # A zero point of the data that only the run knows, and weights that are fed.
    found = run(tmp_path, backend, "MatMulIntegerToFloat", given, fed=(0, 4))[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    found = run(tmp_path, backend, "MatMulIntegerToFloat", given, fed=(0, 1, 5))[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    x = rng.standard_normal((3, 5, 13)).astype(F)
    found = run(tmp_path, backend, "DynamicQuantizeMatMul", [x, b, scale, zero, bias])[0]
    step = (max(x.max(), 0) - min(x.min(), 0)) / 255
    about = np.abs(whole * scale).sum(0).max() * step
    np.testing.assert_allclose(found, x @ (whole * scale) + bias, atol=about)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("to_floats", [False, True])
def test_gemm(turned: int, to_floats: bool, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(7)
    a, b = ints(rng, np.uint8, 5, 11), ints(rng, np.int8, 11, 7)
    bias = rng.integers(-999, 999, (5, 7)).astype(np.int32)
    real = ((a.astype(float) - 9) @ (b.astype(float) + 2) + bias) * 0.02 * 0.03 * 0.5
    given = [a.T if turned else a, F(0.02), np.uint8(9), b.T if turned else b, F(0.03),
             np.int8(-2), bias]  # fmt: skip
    given = [np.ascontiguousarray(v) for v in given]
    more = {"alpha": 0.5, "transA": turned, "transB": turned}
    if to_floats:
        found = run(tmp_path, backend, "QGemm", given, **more)[0]
        np.testing.assert_allclose(found, real, rtol=1e-5, atol=1e-5)
        return
    found = run(tmp_path, backend, "QGemm", [*given, F(0.7), np.uint8(99)], **more)[0]
    near(found, stored(real, 0.7, 99, np.uint8))


def test_convolution_channels_last(tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(8)
    x, w = ints(rng, np.uint8, 1, 5, 7, 3), ints(rng, np.int8, 4, 3, 1, 1)
    bias = rng.integers(-99, 99, 4).astype(np.int32)
    given = [x, F(0.02), np.uint8(7), w, F(0.01), np.int8(0), F(0.3), np.uint8(99), bias]
    found = run(tmp_path, backend, "QLinearConv", given, channels_last=1)[0]
    sums = (x.astype(float) - 7) @ w[:, :, 0, 0].T.astype(float) + bias
    near(found, stored(sums * 0.02 * 0.01, 0.3, 99, np.uint8))


def test_integers_of_16_bits(tmp_path: Path, backend: str) -> None:
    a = ints(np.random.default_rng(9), np.uint16, 3, 5)
    found = run(tmp_path, backend, "MatMulInteger16", [a, a.T.copy()], fed=(0, 1))[0]
    wanted = (a.astype(np.uint64) @ a.T.astype(np.uint64)).astype(np.uint32)
    assert found.dtype == np.uint32 and found.tolist() == wanted.tolist()


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Integers along the last axis in bytes, the first in the lowest bits."""
    single = codes[..., None] >> np.arange(bits) & 1
    flat = single.reshape(*codes.shape[:-1], -1).astype(np.uint8)
    return np.packbits(flat, axis=-1, bitorder="little")


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("zeros", [None, "packed", "float"])
@pytest.mark.parametrize(("size", "groups"), [(43, False), (44, False), (44, True)])
def test_weights_of_few_bits(
    bits: int, zeros: str | None, size: int, groups: bool, tmp_path: Path, backend: str
) -> None:
    rng = np.random.default_rng(10)
    rows, block = 7, 16
    blocks = -(-size // block)
    codes = rng.integers(0, 1 << bits, (rows, blocks * block))
    scale, x = rng.random((rows, blocks)).astype(F), rng.standard_normal((2, 3, size)).astype(F)
    bias = rng.standard_normal(rows).astype(F)
    points: Any = np.full((rows, blocks), 1 << (bits - 1), F)
    given: Any = None
    if zeros is not None:
        points = rng.integers(0, 1 << bits, (rows, blocks))
        given = packed(points, bits) if zeros == "packed" else points.astype(F)
    places = rng.permutation(np.arange(size) // block) if groups else np.arange(size) // block
    index = places.astype(np.int32) if groups else None
    wanted = (codes[:, :size] - points[:, places]) * scale[:, places]
    b = packed(codes.reshape(rows, blocks, block), bits)
    found = run(
        tmp_path, backend, "MatMulNBits", [x, b, scale.reshape(-1), given, index, bias],
        K=size, N=rows, bits=bits, block_size=block,
    )[0]  # fmt: skip
    np.testing.assert_allclose(found, x @ wanted.T + bias, rtol=1e-4, atol=1e-3)


def test_codes_stay_as_they_are(tmp_path: Path, backend: str) -> None:
    """Weights of 4 bits take half a byte each, not four bytes."""
    rows, size, block = 512, 1024, 32
    blocks = size // block
    codes = np.full((rows, blocks, block // 2), 0x98, np.uint8)  # 8, 9: 0 and 1 times the scale
    given = [np.ones((1, size), F), codes, np.full((rows, blocks), 0.5, F)]
    session, feeds = session_of(
        tmp_path, backend, "MatMulNBits", given, K=size, N=rows, bits=4, block_size=block
    )
    session.close()
    (path,) = tmp_path.glob("*.onnx")
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device, memory_limit="1MB") as small:  # floats would take two
        assert (small.run(feeds)["y0"] == size / 4).all()


def test_no_weights_give_the_bias(tmp_path: Path, backend: str) -> None:
    x, bias = np.ones((2, 32), F), np.array([1, 2, 3], F)
    given = [x, np.zeros((0, 2, 8), np.uint8), np.zeros(0, F), None, None, bias]
    found = run(tmp_path, backend, "MatMulNBits", given, K=32, N=3, block_size=16)[0]
    assert found.tolist() == [[1, 2, 3]] * 2


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_packed_tables(bits: int, zeros: bool, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(11)
    codes = rng.integers(0, 1 << bits, (5, 32))
    scale, points = rng.random((5, 2)).astype(F), rng.integers(0, 1 << bits, (5, 2))
    index = np.array([[4, -5, 2]], np.int64)
    given = [packed(codes, bits), index, scale, packed(points, bits) if zeros else None]
    real = codes - (np.repeat(points, 16, 1) if zeros else 1 << (bits - 1))
    wanted = (real * np.repeat(scale, 16, 1))[index]
    found = run(
        tmp_path, backend, "GatherBlockQuantized", given, fed=(1,), bits=bits, block_size=16
    )[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(("at", "along"), [(0, 1), (1, 2), (2, 1), (0, 2), (1, 1)])
def test_entries_of_small_types(at: int, along: int, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(12)
    data = rng.integers(-8, 8, (5, 6, 7)).astype(ml_dtypes.int4)
    dims = [5, 6, 7]
    dims[along] = -(-dims[along] // 3)
    scale, points = rng.random(dims).astype(F), rng.integers(-8, 8, dims).astype(ml_dtypes.int4)
    index = np.array([[3, 0], [1, 4]], np.int32)
    places = np.arange(data.shape[along]) // 3
    real = (data.astype(F) - np.take(points.astype(F), places, along)) * np.take(
        scale, places, along
    )
    more = {"gather_axis": at, "quantize_axis": along, "block_size": 3}
    found = run(
        tmp_path, backend, "GatherBlockQuantized", [data, index, scale, points], fed=(1,), **more
    )[0]
    np.testing.assert_allclose(found, np.take(real, index, at), rtol=1e-6)


def test_entries_of_float8_share_a_scale(tmp_path: Path, backend: str) -> None:
    data = np.random.default_rng(13).standard_normal((5, 8)).astype(ml_dtypes.float8_e4m3fn)
    index, scale = np.array([4, 1], np.int64), np.array([[0.5]], F)
    found = run(
        tmp_path, backend, "GatherBlockQuantized", [data, index, scale], fed=(1,), block_size=0
    )[0]
    assert found.tolist() == (data.astype(F)[index] * 0.5).tolist()


@pytest.mark.parametrize("kind", [0, 1])
def test_bnb4(kind: int, tmp_path: Path, backend: str) -> None:
    """Of a matrix of ones: sums of what the codes stand for."""
    codes = np.arange(48) % 16
    table = {0: [0, 0.0052083, 0.666667, 1, 0.333333, 0.5, 0.166667, 0.25], 1: None}[kind]
    given = [np.eye(16, dtype=F), (codes[::2] << 4 | codes[1::2]).astype(np.uint8),
             np.array([2, 3, 4], F)]  # fmt: skip
    found = run(tmp_path, backend, "MatMulBnb4", given, K=16, N=3, block_size=16, quant_type=kind)[
        0
    ]
    for row, factor in enumerate((2, 3, 4)):
        numbers = found[:, row] / factor
        if table is not None:
            np.testing.assert_allclose(numbers[:8], table, atol=1e-5)
            np.testing.assert_allclose(numbers[8:], np.negative(table), atol=1e-5)
        else:
            assert numbers[0] == -1 and numbers[7] == 0 and numbers[15] == 1
            assert (np.diff(numbers) > 0).all()


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings(segments: bool, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(15)
    words = rng.integers(0, 9, (2, 5)).astype(np.int32)
    kinds = rng.integers(0, 2, (2, 5)).astype(np.int32)
    tables = [ints(rng, np.uint8, n, 6) for n in (9, 7, 2)]
    gamma, beta = ints(rng, np.uint8, 6), ints(rng, np.uint8, 6)
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)
    parts: list[Any] = [words, kinds if segments else None, *tables, gamma, beta, mask]
    scales: list[Any] = [F(0.01 * (i + 1)) for i in range(5)]
    zeros: list[Any] = [np.uint8(100 + i) for i in range(5)]
    if not segments:
        parts[4] = scales[2] = zeros[2] = None
    fed = (0, 1, 7) if segments else (0, 7)
    found, counts = run(
        tmp_path, backend, "QEmbedLayerNormalization", [*parts, *scales, *zeros], outputs=2,
        fed=fed, epsilon=1e-6,
    )  # fmt: skip
    real = [(t.astype(float) - 100 - i) * 0.01 * (i + 1)
            for i, t in enumerate((*tables, gamma, beta))]  # fmt: skip
    total = real[0][words] + real[1][:5] + (real[2][kinds] if segments else 0)
    mean, spread = total.mean(-1, keepdims=True), total.std(-1, keepdims=True)
    wanted = (total - mean) / np.sqrt(spread**2 + 1e-6) * real[3] + real[4]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    assert counts.dtype == np.int32 and counts.tolist() == [3, 5]


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("more", ["", "lengths", "past"])
def test_attention(causal: int, more: str, tmp_path: Path, backend: str) -> None:
    """As Attention of what the integers stand for; scales by column or one for all."""
    rng = np.random.default_rng(16)
    x, w = ints(rng, np.uint8, 2, 5, 8), ints(rng, np.int8, 8, 24)
    bias = rng.standard_normal(24).astype(F)
    scale = (rng.random(24) * 0.01).astype(F) if more == "lengths" else F(0.005)
    zero = np.zeros(24, np.int8) if more == "lengths" else np.int8(-3)
    mask = np.array([3, 5], np.int32) if more == "lengths" else None
    past = rng.standard_normal((2, 2, 2, 3, 4)).astype(F) if more == "past" else None
    given = [x, w, bias, F(0.02), scale, mask, np.uint8(120), zero, past]
    shared: dict[str, Any] = {"num_heads": 2, "unidirectional": causal}
    shared["outputs"] = 2 if more == "past" else 1
    found = run(tmp_path, backend, "QAttention", given, **shared)
    real_x = ((x.astype(F) - 120) * F(0.02)).astype(F)
    real_w = ((w.astype(F) - zero) * scale).astype(F)
    wanted = run(tmp_path, "numpy", "Attention", [real_x, real_w, bias, mask, past], **shared)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
