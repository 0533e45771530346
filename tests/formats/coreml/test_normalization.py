"""Normalizations and softmax, against their formulas in NumPy and against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import half_weights, layer, near, run, run_everywhere, weights

from vknn.errors import VknnError

RNG = np.random.default_rng(15)
SHAPES = [(4, 3, 5), (2, 4, 3, 5), (2, 3, 4, 3, 5)]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def column(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64).reshape(-1, 1, 1)


def batchnorm(gamma: Any, beta: Any, channels: int, **params: Any) -> Any:
    return layer("batchnorm", channels=channels, gamma=weights(gamma), beta=weights(beta), **params)


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_stored_statistics(shape: Any, epsilon: float) -> None:
    x, (gamma, beta, mean) = normal(*shape), normal(3, 4)
    variance = RNG.random(4).astype(np.float32)
    net = batchnorm(
        gamma, beta, 4, mean=weights(mean), variance=half_weights(variance), epsilon=epsilon
    )
    y = run_everywhere(net, {"x": x})["y"]
    rounded = column(variance.astype(np.float16)) + (epsilon or 1e-5)
    near(y, column(gamma) * (x - column(mean)) / np.sqrt(rounded) + column(beta))


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("instance", [False, True])
def test_computed_statistics(shape: Any, instance: bool) -> None:
    x, (gamma, beta) = normal(*shape) * 3 + 1, normal(2, 4)
    for epsilon in (0.0, 0.5):
        net = batchnorm(
            gamma, beta, 4, computeMeanVar=True, instanceNormalization=instance, epsilon=epsilon
        )
        axes = (-2, -1) if instance else tuple(a for a in range(x.ndim) if a != x.ndim - 3)
        wide = x.astype(np.float64)
        spread = np.sqrt(wide.var(axis=axes, keepdims=True) + (epsilon or 1e-5))
        expected = (wide - wide.mean(axis=axes, keepdims=True)) / spread
        near(run(net, {"x": x})["y"], column(gamma) * expected + column(beta))
    run_everywhere(net, {"x": x})


def test_batchnorm_of_a_vector_in_the_rank_5_mapping() -> None:
    x, (gamma, beta, mean) = normal(4), normal(3, 4)
    net = batchnorm(gamma, beta, 4, mean=weights(mean), variance=weights([1, 2, 3, 4]))
    y = run(net, {"x": x}, rank5=True)["y"]
    expected = gamma * (x - mean) / np.sqrt(np.arange(1, 5) + 1e-5) + beta
    near(y, expected.reshape(1, 1, 4, 1, 1))


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("variance", [False, True])
def test_mvn(shape: Any, across: bool, variance: bool) -> None:
    x = normal(*shape) + 2
    x[..., 0, :, :] = 1.5 if not across else x[..., 0, :, :]
    axes = (-3, -2, -1) if across else (-2, -1)
    wide = x.astype(np.float64)
    for epsilon in (0.0, 0.3):
        net = layer("mvn", acrossChannels=across, normalizeVariance=variance, epsilon=epsilon)
        expected = wide - wide.mean(axis=axes, keepdims=True)
        if variance:
            expected /= np.sqrt(wide.var(axis=axes, keepdims=True) + (epsilon or 1e-6))
        near(run(net, {"x": x})["y"], expected)
    run_everywhere(net, {"x": x})


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES)
def test_l2_normalize(shape: Any) -> None:
    x = normal(*shape)
    for epsilon in (0.0, 1e-5, 2.0):
        sums = np.square(x.astype(np.float64)).sum(axis=(-3, -2, -1), keepdims=True)
        y = run(layer("l2normalize", epsilon=epsilon), {"x": x})["y"]
        near(y, x / np.sqrt(sums + (epsilon or 1e-6)))
    run_everywhere(layer("l2normalize", epsilon=1e-5), {"x": x})
    # Without an epsilon zeros stay zeros: 0 means 1e-6.
    assert not run_everywhere(layer("l2normalize"), {"x": 0 * x})["y"].any()


@pytest.mark.device
@pytest.mark.parametrize("shape", [(7, 2, 3), (2, 7, 2, 3), (2, 1, 7, 2, 3)])
@pytest.mark.parametrize("window", [1, 3, 5, 15])
def test_lrn(shape: Any, window: int) -> None:
    x = normal(*shape)
    squares = np.square(x.astype(np.float64))
    sums = np.zeros_like(squares)
    for channel in range(7):
        low, high = max(0, channel - window // 2), channel + window // 2 + 1
        sums[..., channel, :, :] = squares[..., low:high, :, :].sum(axis=-3)
    for k in (0.0, 2.5):
        net = layer("lrn", alpha=0.7, beta=0.75, localSize=window, k=k)
        expected = x / ((k or 1.0) + 0.7 / window * sums) ** 0.75
        near(run(net, {"x": x})["y"], expected)
    run_everywhere(net, {"x": x})


@pytest.mark.parametrize("window", [2, 3, 4])
def test_lrn_is_that_of_pytorch(window: int) -> None:
    torch = pytest.importorskip("torch")
    x = normal(2, 6, 3, 2)
    expected = torch.nn.functional.local_response_norm(
        torch.from_numpy(x), window, alpha=0.5, beta=0.8, k=1.5
    )
    net = layer("lrn", alpha=0.5, beta=0.8, localSize=window, k=1.5)
    near(run(net, {"x": x})["y"], expected.numpy())


@pytest.mark.device
@pytest.mark.parametrize("shape", [*SHAPES, (4, 1, 1)])
def test_softmax(shape: Any) -> None:
    x = normal(*shape) * 5
    exps = np.exp(x.astype(np.float64))
    near(run_everywhere(layer("softmax"), {"x": x})["y"], exps / exps.sum(axis=-3, keepdims=True))


def test_softmax_of_a_vector_in_the_rank_5_mapping() -> None:
    x = np.array([1, 2, 3], np.float32)
    y = run(layer("softmax"), {"x": x}, rank5=True)["y"]
    near(y, (np.exp(x) / np.exp(x).sum()).reshape(1, 1, 3, 1, 1))


@pytest.mark.device
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_softmax_along_any_axis(rank: int) -> None:
    x = normal(*(2, 3, 4, 3, 2)[-rank:]) * 5
    for axis in range(-rank, rank):
        y = run(layer("softmaxND", axis=axis), {"x": x})["y"]
        exps = np.exp(x.astype(np.float64))
        near(y, exps / exps.sum(axis=axis, keepdims=True))
    run_everywhere(layer("softmaxND", axis=0), {"x": x})


def test_softmax_of_large_numbers() -> None:
    x = np.array([[-3e38, -1e30, -1e30], [0.0, 1000.0, 1000.0]], np.float32)
    y = run_everywhere(layer("softmaxND", axis=-1), {"x": x})["y"]
    near(y, np.array([[0, 0.5, 0.5], [0, 0.5, 0.5]]))


@pytest.mark.device
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_layer_normalization(count: int) -> None:
    shape = (2, 3, 4, 5)
    x, gamma, beta = normal(*shape), normal(*shape[-count:]), normal(*shape[-count:])
    axes = tuple(range(-count, 0))
    wide = x.astype(np.float64)
    for eps in (1e-5, 0.5):
        net = layer(
            "layerNormalization",
            normalizedShape=shape[-count:],
            eps=eps,
            gamma=weights(gamma),
            beta=weights(beta),
        )
        spread = np.sqrt(wide.var(axis=axes, keepdims=True) + eps)
        expected = (wide - wide.mean(axis=axes, keepdims=True)) / spread
        near(run(net, {"x": x})["y"], expected * gamma + beta)
    run_everywhere(net, {"x": x})


ONE = weights([1, 1])
WRONG = {
    "channels": (batchnorm([1, 1], [1, 1], 2, mean=ONE, variance=ONE), (3, 2, 2)),
    "no variance": (batchnorm([1, 1], [1, 1], 2, mean=ONE), (2, 2, 2)),
    "batchnorm's rank": (batchnorm([1, 1], [1, 1], 2, mean=ONE, variance=ONE), (2, 2)),
    "mvn's rank": (layer("mvn"), (2, 2)),
    "l2normalize's rank": (layer("l2normalize"), (2,)),
    "no window": (layer("lrn", alpha=1.0), (2, 2, 2)),
    "softmax's rank": (layer("softmax"), (2, 2)),
    "softmax's axis": (layer("softmaxND", axis=2), (2, 2)),
    "shape": (layer("layerNormalization", normalizedShape=[3], gamma=ONE, beta=ONE), (3, 2)),
    "no shape": (layer("layerNormalization", gamma=ONE, beta=ONE), (3, 2)),
    "long shape": (
        layer("layerNormalization", normalizedShape=[1, 3, 2], gamma=ONE, beta=ONE),
        (3, 2),
    ),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, {"x": np.zeros(shape, np.float32)})
