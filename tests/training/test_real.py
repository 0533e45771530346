"""Updatable models that people made, trained on real data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn.errors import InputError
from vknn.session import Session


@pytest.fixture
def folder(shared: Path) -> Path:
    """The Core ML models."""
    path = shared / "models" / "coreml"
    if not (path / "UpdatableMNIST.mlmodel").is_file():
        pytest.skip(f"no updatable models in {path}")
    return path


def digits(count: int) -> tuple[np.ndarray, list[int]]:
    """Handwritten digits of 8x8 pixels, not those that the network was trained on, as 28x28."""
    datasets = pytest.importorskip("sklearn.datasets")
    image = pytest.importorskip("PIL.Image")
    data = datasets.load_digits()
    pictures = np.zeros((count, 28, 28), np.uint8)
    for i in range(count):
        small = image.fromarray((data.images[i] * 15.9).astype(np.uint8))
        pictures[i, 4:24, 4:24] = np.asarray(small.resize((20, 20), image.Resampling.BILINEAR))
    return pictures, [int(t) for t in data.target[:count]]


@pytest.mark.long
def test_mnist_learns_another_hand(folder: Path, tmp_path: Path, device: Any) -> None:
    pictures, labels = digits(120)
    train, test = slice(0, 64), slice(64, 120)

    def accuracy(session: Session) -> float:
        found = [session.run({"image": p})["classLabel"] for p in pictures[test]]
        return float(np.mean([a == b for a, b in zip(found, labels[test], strict=True)]))

    examples = [
        {"image": p, "prediction": {label: 1.0}}
        for p, label in zip(pictures[train], labels[train], strict=True)
    ]
    with Session(folder / "UpdatableMNIST.mlmodel", device=device) as session:
        before = accuracy(session)
        # The model fixes 32 epochs; its own learning rate is too large for pixels up to 255.
        with pytest.raises(InputError, match="epochs is 5; the model allows 32"):
            session.update(examples, epochs=5)
        result = session.update(
            examples, learning_rate=1e-4, progress=lambda now: now.epoch < 4 or now.batch < 2
        )
        after = accuracy(session)
        session.save(tmp_path / "learned.mlmodel")
    assert before < 0.85
    assert after > before + 0.08
    assert result.losses[-1] < 0.5 * result.losses[0]
    assert result.metrics["accuracy"][-1] > result.metrics["accuracy"][0]
    with Session(tmp_path / "learned.mlmodel", device=device) as again:
        assert accuracy(again) == after


def housing(folder: Path) -> dict[str, np.ndarray]:
    """Boston's houses as the model takes them: (x - mean) / deviation, two categories, prices."""
    rows = np.loadtxt(folder / "house_housing.csv")
    numbers = np.delete(rows[:, :13], [3, 8], axis=1)
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    _, radial = np.unique(rows[:, 8], return_inverse=True)
    columns = {
        "numericalInput": numbers,
        "categoricalInput1": rows[:, 3:4],
        "categoricalInput2": radial.reshape(-1, 1),
        "output_true": rows[:, 13:14],
    }
    return {name: array.astype(np.float32) for name, array in columns.items()}


def test_houses_are_learned_as_pytorch_learns_them(folder: Path, device: Any) -> None:
    data = housing(folder)
    with Session(folder / "house_trainable_updatable.mlmodel", device=device) as session:
        layers = {x.name: x for x in session.model.part.layers}  # type: ignore[attr-defined]
        theirs = _torch_losses(data, layers, epochs=5)
        result = session.update(
            data, shuffle=False, progress=lambda now: now.epoch < 5 or now.batch < now.batches
        )
    np.testing.assert_allclose(result.losses, theirs, rtol=2e-3)
    assert result.losses[-1] < 0.1 * result.losses[0]


@pytest.mark.long
def test_houses_with_the_models_own_settings(folder: Path) -> None:
    data = housing(folder)
    with Session(folder / "house_trainable_updatable.mlmodel", device="numpy") as session:
        before = _error(session, data)
        result = session.update(data, seed=1, progress=lambda now: now.epoch <= 40)
        after = _error(session, data)
    assert after < 0.03 * before
    assert result.losses[39] < 0.03 * result.losses[0]


def _error(session: Session, data: dict[str, np.ndarray]) -> float:
    names = [spec.name for spec in session.inputs]
    found = [session.run({n: data[n][i] for n in names})["output"] for i in range(0, 506, 10)]
    return float(np.mean((np.ravel(found) - data["output_true"][::10, 0]) ** 2))


def _torch_losses(data: dict[str, np.ndarray], layers: dict[str, Any], epochs: int) -> list[float]:
    """The mean losses of epochs of mini-batches of 32, learning rate 0.001."""
    torch = pytest.importorskip("torch")

    def weights(name: str, field: str, *shape: int) -> Any:
        layer = layers[name]
        message = getattr(getattr(layer, layer.WhichOneof("layer")), field)
        return torch.tensor(np.array(message.floatValue, np.float32).reshape(shape))

    tables = [weights("embedding1", "weights", -1, 2), weights("embedding2", "weights", -1, 9)]
    sizes = {"dense1": (64, 18), "dense2": (32, 64), "dense3": (1, 32)}
    trained = {}
    for name, shape in sizes.items():
        trained[name] = weights(name, "weights", *shape), weights(name, "bias", shape[0])
        for tensor in trained[name]:
            tensor.requires_grad_()
    optimizer = torch.optim.SGD([t for pair in trained.values() for t in pair], lr=0.001)
    columns = [torch.tensor(data["numericalInput"])]
    for name, table in zip(("categoricalInput1", "categoricalInput2"), tables, strict=True):
        columns.append(table[:, torch.tensor(data[name][:, 0]).long()].T)
    x, y = torch.cat(columns, 1), torch.tensor(data["output_true"])
    losses = []
    for _ in range(epochs):
        total = 0.0
        for first in range(0, len(x), 32):
            h, t = x[first : first + 32], y[first : first + 32]
            for name in sizes:
                h = torch.nn.functional.linear(h, *trained[name])
                h = h if name == "dense3" else h.relu()
            loss = torch.nn.functional.mse_loss(h, t)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(t)
        losses.append(total / len(x))
    return losses
