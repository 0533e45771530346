"""onnxruntime's pool with a mask and its windows over words, against loops.

Results of onnxruntime 1.32 were compared when these were written.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vknn.errors import VknnError

MICROSOFT = "com.microsoft"
LOWEST = np.finfo(np.float32).min


@pytest.mark.parametrize("planes", [(1, 1), (2, 3)])
@pytest.mark.parametrize(
    ("sizes", "kernel", "more"),
    [((11,), (3,), {}), ((7, 9), (2, 3), {"strides": [2, 1], "pads": [1, 1, 0, 1]}),
     ((5, 3, 4), (2, 2, 3), {})],
)  # fmt: skip
def test_max_pool_with_mask(run, sizes, kernel, more, planes) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 3, *sizes)).astype(np.float32)
    mask = (rng.random((*planes, *sizes)) > 0.3).astype(np.int32)
    mask.reshape(-1)[:2] = 0
    axes, count, size = len(sizes), planes[0] * planes[1], int(np.prod(sizes))
    pads, strides = more.get("pads", [0] * 2 * axes), more.get("strides", [1] * axes)
    outs = [
        (s + a + b - k) // step + 1
        for s, a, b, k, step in zip(sizes, pads, pads[axes:], kernel, strides, strict=False)
    ]
    wanted = np.full((2, 3, *outs), LOWEST)
    for plane in range(6):
        image = x.reshape(6, *sizes)[plane]
        begin = plane * size % count  # as onnxruntime has it
        seen = mask.reshape(-1)[begin : begin + size].reshape(sizes).astype(bool)
        if axes > 1:
            seen[(0,) * axes] = True
        for place in itertools.product(*map(range, outs)):
            starts = [p * s - b for p, s, b in zip(place, strides, pads, strict=False)]
            ranges = [
                range(max(a, 0), min(a + k, s))
                for a, k, s in zip(starts, kernel, sizes, strict=True)
            ]
            for row in itertools.product(*ranges[:-1]):
                for last in itertools.takewhile(
                    lambda i, row=row, seen=seen: seen[(*row, i)], ranges[-1]
                ):
                    y = wanted.reshape(6, *outs)
                    y[(plane, *place)] = max(y[(plane, *place)], image[(*row, last)])
    (found,) = run("MaxpoolWithMask", [x, mask], domain=MICROSOFT, kernel_shape=kernel, **more)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(VknnError, match="with the mask"):
        run("MaxpoolWithMask", [x, mask[..., 1:]], domain=MICROSOFT, kernel_shape=kernel)


def test_word_conv_embedding(run) -> None:
    rng = np.random.default_rng(6)
    letters = rng.integers(1, 17, (6, 9)).astype(np.int32)
    lengths = (9, 5, 3, 2, 1, 0)
    for word, length in enumerate(lengths):
        letters[word, length:] = 0
    weights, bias, table = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((5, 1, 3, 4), (5,), (17, 4))
    )
    wanted = np.zeros((6, 5))
    for word, length in enumerate(lengths[:5]):
        rows = table[letters[word]].astype(float)
        taps = [rows[i : i + 3] for i in range(max(length, 3) - 2)]
        sums = [(weights[:, 0] * t).sum((1, 2)) + bias for t in taps]
        wanted[word] = np.tanh(sums).max(0)
    given = [letters, weights, bias, table]
    (found,) = run("WordConvEmbedding", given, domain=MICROSOFT, fixed=(1, 2, 3))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    with pytest.raises(VknnError, match="conv_window_size is 2"):
        run("WordConvEmbedding", given, domain=MICROSOFT, conv_window_size=2)
