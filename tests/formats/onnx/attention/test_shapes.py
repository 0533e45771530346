"""Inputs of wrong shapes: errors that say which input it is, and what it has to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.onnx.attention.one_node import MICROSOFT, floats, run_node

from vknn.errors import ShapeError

B, S, H, G, D, P = 2, 3, 4, 2, 8, 5


def ints(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


def refused(folder: Path, op: str, inputs: list[Any], text: str, **rest: Any) -> None:
    with pytest.raises(ShapeError, match=text) as caught:
        run_node(folder, "numpy", op, inputs, domain=MICROSOFT, opset=21, **rest)
    assert op in str(caught.value)


GROUPED = [
    floats(B, S, H * D), floats(B, S, G * D), floats(B, S, G * D),
    floats(B, G, P, D), floats(B, G, P, D), ints(B) + 3, np.array(4, np.int32),
    floats(9, 4), floats(9, 4), np.zeros((B, S), np.int64),
    floats(1, H, S, 4), floats(H), None, None,
    floats(D), floats(D),
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "wrong", "text"),
    [
        (0, floats(S, H * D), r"query is .*\[any, any, any\]"),
        (1, floats(1, B, S, G * D), r"key is .*\[2, 3, 16\]"),
        (1, floats(B, S + 1, G * D), r"key is .*\[2, 3, 16\]"),
        (2, floats(), r"value is .*\[2, 3, 16\]"),
        (3, floats(), r"past_key is float32\[\], it has to be \[2, 2, any, any\]"),
        (4, floats(B, H, P, D), r"past_value is .*\[2, 2, any, any\]"),
        (7, floats(9), r"cos_cache is .*\[any, any\]"),
        (8, floats(9, 4, 1), r"sin_cache is .*\[any, any\]"),
        (9, ints(B).astype(np.int64), r"position_ids is .*\[2, 3\]"),
        (10, floats(H, S, 4), r"attention_bias is .*\[1 or 2, 1 or 4, 3, any\]"),
        (11, floats(G), r"head_sink is .*\[4\]"),
        (14, floats(1, D), r"q_norm_weight is .*\[8\]"),
    ],
)
def test_queries_that_share_keys(number: int, wrong: Any, text: str, tmp_path: Path) -> None:
    given = list(GROUPED)
    given[number] = wrong
    refused(tmp_path, "GroupQueryAttention", given, text, num_heads=H, kv_num_heads=G, do_rotary=1)


@pytest.mark.parametrize(
    ("number", "wrong", "text"),
    [
        (3, floats(), r"bias is .*\[any\]"),
        (4, ints(), r"the mask of keys is .*\[any\] or \[2, 8\] or"),
        (6, floats(B, H, P), r"past_key is .*\[2, 4, any, any\]"),
        (1, floats(1, S, H * D), "batches, heads differ"),
    ],
)
def test_queries_with_keys_of_their_own(number: int, wrong: Any, text: str, tmp_path: Path) -> None:
    whole, past = floats(B, S, H * D), floats(B, H, P, D)
    given = [whole, whole, whole, floats(3 * H * D), ints(B, P + S), None, past, past]
    given[number] = wrong
    refused(tmp_path, "MultiHeadAttention", given, text, num_heads=H)


@pytest.mark.parametrize(
    ("number", "wrong", "text"),
    [
        (0, ints(B, S, 1), r"input_ids is .*\[any, any\]"),
        (3, floats(), r"position_embedding is .*\[any, 6\]"),
        (5, floats(5), r"gamma is .*\[6\]"),
        (7, ints(B), r"mask is .*\[2, 3\]"),
    ],
)
def test_embeddings(number: int, wrong: Any, text: str, tmp_path: Path) -> None:
    given = [ints(B, S), None, floats(9, 6), floats(7, 6), None, floats(6), floats(6), ints(B, S)]
    given[number] = wrong
    refused(tmp_path, "EmbedLayerNormalization", given, text)


def test_other_operators(tmp_path: Path) -> None:
    experts = [floats(2, 3), floats(2, 4), floats(4, 5, 3), floats(4, 5), floats(4, 3, 5)]
    refused(
        tmp_path, "MoE", [*experts[:2], floats(), *experts[3:]], r"fc1_experts_weights is .*3\]"
    )
    refused(tmp_path, "MoE", [*experts, floats()], r"fc2_experts_bias is .*\[4, 3\]")
    codes = [np.zeros((4, 5, 2), np.uint8), floats(4, 5)]
    quantized = [floats(), floats(2, 4), *codes, None, *codes]
    refused(tmp_path, "QMoE", quantized, r"takes rows, not float32\[\]")
    blocks = [np.zeros((5, 16), np.uint8), ints(3), floats()]
    refused(tmp_path, "GatherBlockQuantized", blocks, r"scales is .*\[1 or 5, any\]", block_size=16)
    crops = [floats(), floats(2, 4), ints(2), ints(2) + 3]
    refused(tmp_path, "CropAndResize", crops, r"has float32\[\], the boxes")
    turned = [floats(B, S, H * D), np.zeros((), np.int64), floats(9, 4), floats(9, 4)]
    refused(tmp_path, "RotaryEmbedding", turned, r"position_ids is .*\[1\] or \[2, 3\]")
    bytes_ = np.ones((4, 3), np.uint8), np.ones((3, 5), np.uint8)
    one, none = np.float32(1), np.zeros(0, np.uint8)
    given = [bytes_[0], bytes_[1], one, one, np.uint8(1), none]
    refused(tmp_path, "MatMulIntegerToFloat", given, r"zero point uint8\[0\] for b .* not 1 or 5")


def test_windows_longer_than_any_sequence(tmp_path: Path) -> None:
    found = [
        run_node(tmp_path, "numpy", "GroupQueryAttention", GROUPED, domain=MICROSOFT, opset=21,
                 num_heads=H, kv_num_heads=G, local_window_size=size)[0]
        for size in (99, 1 << 62)
    ]  # fmt: skip
    assert np.array_equal(*found)
