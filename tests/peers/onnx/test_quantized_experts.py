"""QMoE by formula: what the test vectors leave out of experts with quantized weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.onnx.one_node import run
from tests.peers.onnx.test_quantized import F, packed


@pytest.mark.parametrize(("bits", "block"), [(4, 0), (4, 16), (8, 16), (2, 0)])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("form", [0, 1, 2])
def test_experts(bits: int, block: int, rows: int, form: int, tmp_path: Path, backend: str) -> None:
    """QMoE and MoE: rows that are few copy their experts, others go through all."""
    rng = np.random.default_rng(14)
    experts, size, inner, k = 7, 32, 16, 2

    def layer(outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        codes = rng.integers(0, 1 << bits, (experts, outputs, inputs))
        blocks = inputs // block if block else 1
        scale = (rng.random((experts, outputs, blocks)) * 0.1).astype(F)
        real = (codes - (1 << (bits - 1))) * np.repeat(scale, inputs // blocks, 2)
        return packed(codes, bits), scale if block else scale[..., 0], real

    wide = inner if form == 0 else 2 * inner
    (q1, s1, w1), (q2, s2, w2), (q3, s3, w3) = (
        layer(wide, size),
        layer(size, inner),
        layer(inner, size),
    )
    bias = rng.standard_normal((experts, wide)).astype(F)
    x, router = rng.standard_normal((rows, size)).astype(F), rng.standard_normal((rows, experts))
    hidden = np.einsum("th,eih->tei", x, w1) + bias
    third = np.einsum("th,eih->tei", x, w3)
    gate, line = {0: (hidden, third), 1: (hidden[..., ::2], hidden[..., 1::2]),
                  2: (hidden[..., :inner], hidden[..., inner:])}[form]  # fmt: skip
    gate, line = np.minimum(gate, 3), np.clip(line, -3, 3)
    made = np.einsum("tei,ehi->teh", gate / (1 + np.exp(-1.5 * gate)) * (line + 0.5), w2)
    chances = np.exp(router) / np.exp(router).sum(1, keepdims=True)
    chances = np.where(chances >= np.sort(chances)[:, -k][:, None], chances, 0)
    plain = np.einsum("teh,te->th", made, chances)
    normal = np.einsum("teh,te->th", made, chances / chances.sum(1, keepdims=True))
    more = {"k": k, "activation_type": "swiglu", "swiglu_fusion": form, "swiglu_limit": 3.0,
            "activation_alpha": 1.5, "activation_beta": 0.5}  # fmt: skip
    floats = [x, router.astype(F), w1.astype(F), bias, w2.astype(F), None]
    floats += [w3.astype(F)] if form == 0 else []
    found = run(tmp_path, backend, "MoE", floats, fed=(0, 1), **more)[0]
    np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-3 * np.abs(plain).max())
    given = [x, router.astype(F), q1, s1, bias, q2, s2, None]
    given += [q3, s3] if form == 0 else []
    more |= (
        {"expert_weight_bits": bits, "block_size": block} if block else {"expert_weight_bits": bits}
    )
    found = run(tmp_path, backend, "QMoE", given, fed=(0, 1), **more)[0]
    np.testing.assert_allclose(found, normal, rtol=1e-3, atol=1e-3 * np.abs(normal).max())


@pytest.mark.parametrize(("bits", "block"), [(4, 0), (2, 0), (4, 16), (8, 16), (2, 8)])
def test_zero_points_of_experts(bits: int, block: int, tmp_path: Path, backend: str) -> None:
    """One for each row, packed along the rows, or for each block, packed along the blocks."""
    rng = np.random.default_rng(16)
    experts, size, inner = 3, 32, 16

    def layer(outputs: int, inputs: int) -> list[np.ndarray]:
        codes = rng.integers(0, 1 << bits, (experts, outputs, inputs))
        blocks = inputs // block if block else 1
        scale = (rng.random((experts, outputs, blocks)) * 0.1).astype(F)
        zeros = rng.integers(0, 1 << bits, scale.shape)
        spread = [np.repeat(v, inputs // blocks, 2) for v in (zeros, scale)]
        real = ((codes - spread[0]) * spread[1]).astype(F)
        parts = [scale, zeros] if block else [scale[..., 0], zeros[..., 0]]
        return [packed(codes, bits), parts[0], packed(parts[1], bits), real]

    (q1, s1, z1, w1), (q2, s2, z2, w2) = layer(inner, size), layer(size, inner)
    x, router = (rng.standard_normal((4, n)).astype(F) for n in (size, experts))
    more = {"k": experts, "activation_type": "relu"}
    floats = [x, router, w1, None, w2]
    (wanted,) = run(tmp_path, backend, "MoE", floats, fed=(0, 1), **more)
    given = [x, router, q1, s1, None, q2, s2, None, None, None, None, z1, z2]
    more |= {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
    (found,) = run(tmp_path, backend, "QMoE", given, fed=(0, 1), **more)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
