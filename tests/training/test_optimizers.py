"""Optimizers against torch.optim, step by step, and settings against what a model allows."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import InputError
from vknn.training.optimizers import SGD, Adam, Optimizer
from vknn.training.settings import Chosen, Setting, Settings

SHAPES = {"w": (3, 4), "b": (4,)}


def walk(optimizer: Optimizer, steps: int) -> list[dict[str, np.ndarray]]:
    """The weights after each of some steps along random gradients."""
    random = np.random.default_rng(3)
    weights = {n: random.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
    seen = []
    for _ in range(steps):
        gradients = {n: random.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
        optimizer.step(weights, gradients)
        seen.append({n: w.copy() for n, w in weights.items()})
    return seen


def torch_walk(kind: str, steps: int, **options: object) -> list[dict[str, np.ndarray]]:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3)
    tensors = {
        n: torch.tensor(random.standard_normal(s).astype(np.float32), requires_grad=True)
        for n, s in SHAPES.items()
    }
    optimizer = getattr(torch.optim, kind)(list(tensors.values()), **options)
    seen = []
    for _ in range(steps):
        for name, shape in SHAPES.items():
            tensors[name].grad = torch.tensor(random.standard_normal(shape).astype(np.float32))
        optimizer.step()
        seen.append({n: t.detach().numpy().copy() for n, t in tensors.items()})
    return seen


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_that_of_torch(momentum: float) -> None:
    ours, theirs = walk(SGD(0.05, momentum), 8), torch_walk("SGD", 8, lr=0.05, momentum=momentum)
    for a, b in zip(ours, theirs, strict=True):
        for name in SHAPES:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.8), (0.0, 0.9)])
@pytest.mark.parametrize("eps", [1e-8, 0.1])
def test_adam_is_that_of_torch(betas: tuple[float, float], eps: float) -> None:
    ours = walk(Adam(0.02, *betas, eps), 8)
    theirs = torch_walk("Adam", 8, lr=0.02, betas=betas, eps=eps)
    for a, b in zip(ours, theirs, strict=True):
        for name in SHAPES:
            np.testing.assert_allclose(a[name], b[name], rtol=2e-6, atol=2e-6)


def test_sgd_by_hand() -> None:
    weights = {"w": np.array([1.0, 2.0], np.float32)}
    optimizer = SGD(0.5, 0.5)
    optimizer.step(weights, {"w": np.array([1.0, -1.0], np.float32)})
    np.testing.assert_allclose(weights["w"], [0.5, 2.5])
    optimizer.step(weights, {"w": np.array([1.0, 0.0], np.float32)})
    np.testing.assert_allclose(weights["w"], [0.5 - 0.5 * 1.5, 2.5 + 0.5 * 0.5])


def test_the_first_step_of_adam_is_the_learning_rate() -> None:
    weights = {"w": np.zeros(3, np.float32)}
    Adam(0.1).step(weights, {"w": np.array([5.0, -0.01, 100.0], np.float32)})
    np.testing.assert_allclose(weights["w"], [-0.1, 0.1, -0.1], rtol=1e-5)


RATE = Setting("learning_rate", 0.01, low=0.0, high=0.5, least=0)
SIZE = Setting("mini_batch_size", 32, allowed=(16, 32), whole=True, least=1)
EPOCHS = Setting("epochs", 3, low=1, high=10, whole=True, least=1)
MODEL = Settings("sgd", {s.name: s for s in (RATE, SIZE, EPOCHS, Setting("momentum", None))})


def test_defaults_are_the_models() -> None:
    chosen = MODEL.choose({"epochs": None})
    assert chosen.values == {
        "learning_rate": 0.01, "mini_batch_size": 32, "epochs": 3, "momentum": None,
    }  # fmt: skip
    optimizer = chosen.make_optimizer()
    assert isinstance(optimizer, SGD)
    assert (optimizer.learning_rate, optimizer.momentum) == (0.01, 0.0)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"learning_rate": 0.6}, "learning_rate is 0.6; the model allows 0 to 0.5"),
        ({"learning_rate": "fast"}, "must be a number"),
        ({"learning_rate": float("nan")}, "must be a number"),
        ({"mini_batch_size": 8}, "mini_batch_size is 8; the model allows 16, 32"),
        ({"epochs": 11}, "epochs is 11; the model allows 1 to 10"),
        ({"epochs": 2.5}, "whole number"),
        ({"epochs": True}, "must be a number"),
        ({"beta1": 0.9}, "beta1: the model's optimizer, sgd"),
    ],
)
def test_what_the_model_does_not_allow(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MODEL.choose(given)


def test_what_neither_says_is_missing() -> None:
    with pytest.raises(InputError, match="epochs"):
        Settings("sgd", {"learning_rate": RATE, "mini_batch_size": SIZE}).choose({})


def test_numbers_may_be_numpys() -> None:
    chosen = MODEL.choose({"epochs": np.int64(2), "learning_rate": np.float32(0.25)})
    assert (chosen.epochs, chosen.values["learning_rate"]) == (2, 0.25)


def test_adam_takes_the_literatures_defaults() -> None:
    optimizer = Chosen("adam", {"learning_rate": 0.1, "beta1": 0.8}).make_optimizer()
    assert isinstance(optimizer, Adam)
    assert (optimizer.beta1, optimizer.beta2, optimizer.eps) == (0.8, 0.999, 1e-8)
