"""Training of the demo's network, written to tools/demo_model/ (ncnn files, held-out samples).

    python tools/train_demo.py

A small convolutional network on scikit-learn's handwritten digits: 1,797 real samples of 8 x 8
pixels with 16 grey levels. One fifth is held out, never seen in training. Training is NumPy alone:
every layer below computes its own gradient. The same seed gives the same files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from vknn.formats.ncnn.records import LayerRecord, NetRecord
from vknn.formats.ncnn.writer import save

OUTPUT = Path(__file__).resolve().parent / "demo_model"
SEED, EPOCHS, BATCH = 7, 40, 64
HELD_OUT = 360

Array = np.ndarray


@dataclass
class Parameter:
    """Weights with their gradient and Adam's two running means."""

    value: Array
    gradient: Array = field(init=False)
    mean: Array = field(init=False)
    square: Array = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.square = np.zeros_like(self.value), np.zeros_like(self.value)

    def step(self, count: int, rate: float) -> None:
        """One step of Adam (Kingma and Ba 2015, algorithm 1)."""
        self.mean += 0.1 * (self.gradient - self.mean)
        self.square += 0.001 * (self.gradient**2 - self.square)
        mean, square = self.mean / (1 - 0.9**count), self.square / (1 - 0.999**count)
        self.value -= rate * mean / (np.sqrt(square) + 1e-8)


class Convolution:
    """3 x 3, stride 1, padding 1; x[N, C, H, W] -> [N, M, H, W]."""

    def __init__(self, random: np.random.Generator, channels: int, outputs: int) -> None:
        scale = np.sqrt(2 / (9 * channels))
        self.weight = Parameter(random.normal(0, scale, (outputs, channels, 3, 3)))
        self.bias = Parameter(np.zeros(outputs))
        self.parameters = [self.weight, self.bias]

    def forward(self, x: Array) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        # windows[N, C, H, W, 3, 3]
        self._windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        y = np.tensordot(self._windows, self.weight.value, axes=([1, 4, 5], [1, 2, 3]))
        return y.transpose(0, 3, 1, 2) + self.bias.value[:, None, None]

    def backward(self, dy: Array) -> Array:
        self.bias.gradient = dy.sum(axis=(0, 2, 3))
        self.weight.gradient = np.tensordot(dy, self._windows, axes=([0, 2, 3], [0, 2, 3]))
        padded = np.pad(dy, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        flipped = self.weight.value[:, :, ::-1, ::-1]
        return np.tensordot(windows, flipped, axes=([1, 4, 5], [0, 2, 3])).transpose(0, 3, 1, 2)


class Relu:
    parameters: tuple[Parameter, ...] = ()

    def forward(self, x: Array) -> Array:
        self._positive = x > 0
        return x * self._positive

    def backward(self, dy: Array) -> Array:
        return dy * self._positive


class MaxPool:
    """2 x 2, stride 2."""

    parameters: tuple[Parameter, ...] = ()

    def forward(self, x: Array) -> Array:
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max(axis=(3, 5))
        self._winners = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, dy: Array) -> Array:
        spread = self._winners * dy[:, :, :, None, :, None]
        n, c, h, _, w, _ = spread.shape
        return spread.reshape(n, c, 2 * h, 2 * w)


class Linear:
    """x[N, ...] flattened -> [N, M]."""

    def __init__(self, random: np.random.Generator, inputs: int, outputs: int) -> None:
        self.weight = Parameter(random.normal(0, np.sqrt(1 / inputs), (outputs, inputs)))
        self.bias = Parameter(np.zeros(outputs))
        self.parameters = [self.weight, self.bias]

    def forward(self, x: Array) -> Array:
        self._shape, self._flat = x.shape, x.reshape(len(x), -1)
        return self._flat @ self.weight.value.T + self.bias.value

    def backward(self, dy: Array) -> Array:
        self.bias.gradient, self.weight.gradient = dy.sum(axis=0), dy.T @ self._flat
        return (dy @ self.weight.value).reshape(self._shape)


Layer = Convolution | Relu | MaxPool | Linear


def network(random: np.random.Generator) -> list[Layer]:
    """The layers; a softmax follows."""
    return [
        Convolution(random, 1, 16),
        Relu(),
        Convolution(random, 16, 32),
        Relu(),
        MaxPool(),  # 4 x 4
        Convolution(random, 32, 32),
        Relu(),
        MaxPool(),  # 2 x 2
        Linear(random, 128, 10),
    ]


def logits(layers: list[Layer], x: Array) -> Array:
    for layer in layers:
        x = layer.forward(x)
    return x


def train_batch(layers: list[Layer], x: Array, labels: Array, count: int, rate: float) -> float:
    """One step on a batch; returns the mean cross-entropy before it."""
    y = logits(layers, x)
    y = y - y.max(axis=1, keepdims=True)
    probability = np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)
    rows = np.arange(len(x))
    loss = -np.log(probability[rows, labels]).mean()
    gradient = probability
    gradient[rows, labels] -= 1
    gradient /= len(x)
    for layer in reversed(layers):
        gradient = layer.backward(gradient)
    for layer in layers:
        for parameter in layer.parameters:
            parameter.step(count, rate)
    return float(loss)


def shifted(random: np.random.Generator, x: Array) -> Array:
    """Each image moved by up to a pixel, so that the network learns strokes, not places."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8), axis=(2, 3))
    dy, dx = random.integers(0, 3, (2, len(x)))
    return windows[np.arange(len(x)), :, dy, dx]


def train(images: Array, labels: Array, random: np.random.Generator) -> list[Layer]:
    layers, count = network(random), 0
    for epoch in range(EPOCHS):
        order = random.permutation(len(images))
        rate = 2e-3 * (1 - epoch / EPOCHS)
        losses = []
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            count += 1
            batch = shifted(random, images[chosen])
            losses.append(train_batch(layers, batch, labels[chosen], count, rate))
        print(f"epoch {epoch + 1:2}: loss {np.mean(losses):.4f}")
    return layers


def accuracy(layers: list[Layer], images: Array, labels: Array) -> float:
    return float((logits(layers, images).argmax(axis=1) == labels).mean())


def export(layers: list[Layer], path: Path) -> None:
    """The files ``path`` (.param), ending in a softmax, and the .bin beside it, written."""
    records = [LayerRecord("Input", "image", (), ("image",), {0: 8, 1: 8, 2: 1})]
    weights: dict[str, dict[str, Array]] = {}
    blob = "image"
    for layer in [*layers, None]:
        type_, params = describe(layer)
        name = f"{type_.lower()}{sum(r.type == type_ for r in records) + 1}"
        output = "probabilities" if layer is None else name
        records.append(LayerRecord(type_, name, (blob,), (output,), params))
        if isinstance(layer, Convolution | Linear):
            weights[name] = {"weight": layer.weight.value, "bias": layer.bias.value}
        blob = output
    save(NetRecord(tuple(records)), weights, path)


def describe(layer: Layer | None) -> tuple[str, dict[int, int]]:
    """ncnn's layer type and parameters (None: the softmax over the 10 classes)."""
    if isinstance(layer, Convolution):
        outputs = len(layer.weight.value)
        return "Convolution", {0: outputs, 1: 3, 4: 1, 5: 1, 6: layer.weight.value.size}
    if isinstance(layer, Linear):
        outputs = len(layer.weight.value)
        return "InnerProduct", {0: outputs, 1: 1, 2: layer.weight.value.size}
    if isinstance(layer, MaxPool):
        return "Pooling", {0: 0, 1: 2, 2: 2}
    return ("Softmax", {0: 0}) if layer is None else ("ReLU", {})


def main() -> None:
    from sklearn.datasets import load_digits

    random = np.random.default_rng(SEED)
    digits = load_digits()
    order = random.permutation(len(digits.images))
    images = (digits.images[order, None] / 16.0).astype(np.float64)
    labels = digits.target[order]
    layers = train(images[HELD_OUT:], labels[HELD_OUT:], random)
    score = accuracy(layers, images[:HELD_OUT], labels[:HELD_OUT])
    print(f"accuracy on {HELD_OUT} held-out samples: {score:.2%}")
    OUTPUT.mkdir(exist_ok=True)
    export(layers, OUTPUT / "digits.param")
    pixels = digits.images[order[:HELD_OUT]].astype(np.uint8)
    np.savez_compressed(
        OUTPUT / "held_out.npz", images=pixels, labels=labels[:HELD_OUT].astype(np.uint8)
    )


if __name__ == "__main__":
    main()
