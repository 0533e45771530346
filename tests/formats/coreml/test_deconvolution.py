"""Deconvolutions with dilation, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.coreml_writer import layer, near, run_everywhere, weights

RNG = np.random.default_rng(5)


def scattered(x: np.ndarray, w: np.ndarray, strides: tuple[int, int], dilations: tuple[int, int],
              groups: int) -> np.ndarray:  # fmt: skip
    """Each input times the kernel, added where it falls. x [C, H, W], w [C, M / groups, h, w]."""
    sizes = [
        (n - 1) * s + (k - 1) * d + 1
        for n, k, s, d in zip(x.shape[1:], w.shape[2:], strides, dilations, strict=True)
    ]
    y = np.zeros((w.shape[1] * groups, *sizes))
    for c, i, j, m, a, b in np.ndindex(*x.shape, *w.shape[1:]):
        channel = c // (len(x) // groups) * w.shape[1] + m
        place = i * strides[0] + a * dilations[0], j * strides[1] + b * dilations[1]
        y[channel, place[0], place[1]] += x[c, i, j] * w[c, m, a, b]
    return y


@pytest.mark.device
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)])
@pytest.mark.parametrize("asked", [None, (9, 11)])
def test_dilation(groups: int, dilations: tuple[int, int], asked: tuple[int, int] | None) -> None:
    x = RNG.standard_normal((4, 5, 4)).astype(np.float32)
    w = RNG.standard_normal((4, 3, 3, 2)).astype(np.float32)
    net = layer(
        "convolution",
        isDeconvolution=True,
        outputChannels=3 * groups,
        kernelChannels=4,
        nGroups=groups,
        kernelSize=[3, 2],
        stride=[2, 3],
        dilationFactor=dilations,
        outputShape=asked or (),
        valid={},
        weights=weights(w),
    )
    y = scattered(x, w, (2, 3), dilations, groups)
    if asked is not None:
        first = [(full - size) // 2 for full, size in zip(y.shape[1:], asked, strict=True)]
        y = y[:, first[0] : first[0] + asked[0], first[1] : first[1] + asked[1]]
    near(run_everywhere(net, {"x": x[None]})["y"], y[None])
