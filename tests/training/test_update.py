"""Updatable models made for the test: what they learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device, skip_without_half
from tests.training import models
from tests.training.examples import LABELS, after_an_epoch, pictures, points, stored

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.session import Session
from vknn.training import runner, step


class TorchClassifier:
    """The classifier of tests.training.models in PyTorch, with weights of the file."""

    def __init__(self, weights: dict[str, np.ndarray], norm: Any) -> None:
        self.torch = pytest.importorskip("torch")
        shapes = {"conv/weights": (4, 2, 3, 3), "dense1/weights": (5, 16), "dense2/weights": (3, 5)}
        self.weights = {
            name: self.torch.tensor(array.reshape(shapes.get(name, array.shape)))
            for name, array in weights.items()
        }
        for tensor in self.weights.values():
            tensor.requires_grad_()
        self.norm = [
            self.torch.tensor(list(getattr(norm, f).floatValue))
            for f in ("mean", "variance", "gamma", "beta")
        ]

    def loss(self, x: np.ndarray, label: list[str]) -> Any:
        f, w = self.torch.nn.functional, self.weights
        y = f.conv2d(self.torch.tensor(x), w["conv/weights"], w["conv/bias"], 2, 1).relu()
        y = f.batch_norm(y, *self.norm, eps=1e-3)
        y = f.max_pool2d(y, 2).flatten(1)
        y = f.linear(y, w["dense1/weights"], w["dense1/bias"]).tanh()
        y = f.linear(y, w["dense2/weights"], w["dense2/bias"])
        return f.cross_entropy(y, self.torch.tensor([LABELS.index(n) for n in label]))


@pytest.mark.device
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_classifier_learns_what_it_learns_in_pytorch(
    tmp_path: Path, device: Any, optimizer: str
) -> None:
    made = models.classifier(optimizer)
    data = pictures()
    with Session(models.written(made, tmp_path), device=device) as session:
        peer = TorchClassifier(stored(session), made.neuralNetworkClassifier.layers[2].batchnorm)
        torch = peer.torch
        options = {"lr": 0.05, "momentum": 0.5} if optimizer == "sgd" else {"lr": 0.05}
        their = getattr(torch.optim, optimizer.upper() if optimizer == "sgd" else "Adam")(
            peer.weights.values(), **options
        )
        losses = []
        for _ in range(3):
            total = 0.0
            for first in range(0, 10, 4):
                part = {name: values[first : first + 4] for name, values in data.items()}
                their.zero_grad()
                loss = peer.loss(part["x"], part["label"])
                loss.backward()
                their.step()
                total += float(loss.detach()) * len(part["label"])
            losses.append(total / 10)
        extra: Any = {"momentum": 0.5} if optimizer == "sgd" else {}
        result = session.update(data, epochs=3, **extra)
        np.testing.assert_allclose(result.losses, losses, rtol=1e-4)
        for name, array in stored(session).items():
            theirs = peer.weights[name].detach().numpy().ravel()
            np.testing.assert_allclose(array, theirs, rtol=2e-3, atol=2e-4, err_msg=name)
    assert (result.examples, result.steps, result.epochs, result.stopped) == (10, 9, 3, False)
    assert len(result.metrics["accuracy"]) == 3


def test_a_classifier_learns(tmp_path: Path, device: Any) -> None:
    data = pictures(24)

    def right(session: Session) -> float:
        found = [session.run({"x": x})["label"] for x in data["x"]]
        return float(np.mean([a == b for a, b in zip(found, data["label"], strict=True)]))

    made = models.classifier("adam")
    with Session(models.written(made, tmp_path), device=device) as session:
        before = right(session)
        result = session.update(data, epochs=25, seed=1, shuffle=True, learning_rate=0.02)
        assert result.losses[-1] < 0.2 * result.losses[0]
        assert result.metrics["accuracy"][-1] > 0.9
        after = right(session)
        assert after > 0.9 > before
        session.save(tmp_path / "saved.mlmodel")
        scores = session.run({"x": data["x"][0]})["scores"]
    with Session(tmp_path / "saved.mlmodel", device=device) as again:
        assert right(again) == after
        assert again.run({"x": data["x"][0]})["scores"] == pytest.approx(scores)


def test_only_what_is_updatable_changes_in_the_file(tmp_path: Path) -> None:
    made = models.regressor()
    path, saved = models.written(made, tmp_path), tmp_path / "saved.mlmodel"
    with Session(path, device="numpy") as session:
        session.update(points())
        session.model.save(saved)
    before, after = pb.Model(), pb.Model()
    before.ParseFromString(path.read_bytes())
    after.ParseFromString(saved.read_bytes())
    for file in (before, after):
        params = file.neuralNetworkRegressor.layers[2].innerProduct
        assert len(params.weights.floatValue) == 8
        assert params.weights.isUpdatable
        params.weights.ClearField("floatValue")
        params.bias.ClearField("floatValue")
    assert before == after
    changed = path.read_bytes() != saved.read_bytes()
    assert changed


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("size", [1, 3, 10, 64])
def test_mini_batches_are_means_however_they_are_computed(
    tmp_path: Path, exact: bool, size: int
) -> None:
    """One step by hand, for all mappings of inputs and sizes of mini-batches."""
    made = models.regressor(exact)
    data = points(10)
    with Session(models.written(made, tmp_path), device="numpy") as session:
        weights = {n: w.astype(np.float64) for n, w in stored(session).items()}
        hidden = data["x"] @ weights["frozen/weights"].reshape(4, 3).T + weights["frozen/bias"]
        hidden = 1 / (1 + np.exp(-hidden))
        w, b = weights["trained/weights"].reshape(2, 4), weights["trained/bias"]
        for first in range(0, 10, size):
            h, t = hidden[first : first + size], data["y_true"][first : first + size]
            error = 2 * (h @ w.T + b - t) / t.size
            w, b = w - 0.05 * error.T @ h, b - 0.05 * error.sum(0)
        session.update(data, epochs=1, mini_batch_size=size)
        now = stored(session)
    np.testing.assert_allclose(now["trained/weights"], w.ravel(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(now["trained/bias"], b, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(now["frozen/weights"], weights["frozen/weights"])


def between(made: Any, change: Any) -> None:
    """Puts a layer between the sigmoid and the trained layer."""
    network = models.network_of(made)
    last = pb.NeuralNetworkLayer.FromString(network.layers[2].SerializeToString())
    del network.layers[2]
    change(models.layer(made, "between", "sigmoid", "between"))
    last.input[0] = "between"
    network.layers.append(last)


def test_a_network_of_fixed_shapes_takes_examples_one_by_one(tmp_path: Path) -> None:
    found = []
    for fixed in (False, True):
        models._random = np.random.default_rng(11)
        made = models.regressor(exact=True)
        if fixed:
            between(made, lambda layer: layer.reshapeStatic.targetShape.extend([1, 4]))
        found.append(after_an_epoch(made, tmp_path, points()))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-7)


def test_a_network_that_would_mix_examples_takes_them_one_by_one(tmp_path: Path) -> None:
    """Softmax over the first axis: of one example all are 1, of several they are not."""
    made = models.regressor(exact=True)
    feature = made.description.input[0].type.multiArrayType
    del feature.shape[:]
    feature.shape.extend([1, 3])

    def mix(layer: Any) -> None:
        layer.softmaxND.axis = 0

    between(made, mix)
    data = points()
    params = made.neuralNetworkRegressor.layers[-1].innerProduct
    w = np.array(params.weights.floatValue).reshape(2, 4)
    b = np.array(params.bias.floatValue)
    for first in range(0, 10, 4):
        target = data["y_true"][first : first + 4]
        error = 2 * (np.ones((len(target), 4)) @ w.T + b - target) / target.size
        w, b = w - 0.05 * error.T @ np.ones((len(target), 4)), b - 0.05 * error.sum(0)
    data["x"] = data["x"][:, None]
    found = after_an_epoch(made, tmp_path, data)
    np.testing.assert_allclose(found, w.ravel(), rtol=1e-4, atol=1e-6)


def test_convolutions_of_exact_shapes(tmp_path: Path, device: Any) -> None:
    """[C, H, W] as images of rank 4, one by one or together: the same steps."""
    found = []
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 1, 2, 8, 8)).astype(np.float32)
    y = random.standard_normal((6, 3)).astype(np.float32)
    for together in (True, False):
        models._random = np.random.default_rng(2)
        made = models.model(exact=True)
        models.array_feature(made.description.input, "x", 1, 2, 8, 8)
        models.array_feature(made.description.output, "y")
        models.array_feature(made.description.trainingInput, "x", 1, 2, 8, 8)
        models.array_feature(made.description.trainingInput, "target", 3)
        models.convolution(made, "conv", "x", "conv", 2, 3)
        pool = models.layer(made, "pool", "conv", "pool").pooling
        pool.type, pool.globalPooling = pool.AVERAGE, True
        pool.valid.SetInParent()
        shape = [-1, 3] if together else [1, 3]
        models.layer(made, "flat", "pool", "y").reshapeStatic.targetShape.extend(shape)
        models.training(made, "square", "y", "target", miniBatchSize=3)
        with Session(models.written(made, tmp_path), device=device) as session:
            session.update({"x": x, "target": y})
            found.append(stored(session)["conv/weights"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_the_last_model_of_a_pipeline_is_trained(tmp_path: Path, device: Any) -> None:
    """A pipeline of a frozen network and an updatable one learns as both in one do."""
    whole = models.regressor()
    data = points()
    with Session(models.written(whole, tmp_path), device=device) as session:
        session.update(data)
        expected = stored(session)["trained/weights"]
    first, last = models.model(updatable=False), models.model()
    models.array_feature(first.description.input, "x", 3)
    models.array_feature(first.description.output, "sigmoid", 4)
    first.neuralNetwork.layers.extend(whole.neuralNetworkRegressor.layers[:2])
    for where in (last.description.input, last.description.trainingInput):
        models.array_feature(where, "sigmoid", 4)
    models.array_feature(last.description.output, "y", 2)
    models.array_feature(last.description.trainingInput, "y_true", 2)
    last.neuralNetwork.layers.extend(whole.neuralNetworkRegressor.layers[2:])
    last.neuralNetwork.updateParams.CopyFrom(whole.neuralNetworkRegressor.updateParams)
    both = pb.Model(specificationVersion=4, isUpdatable=True)
    both.description.CopyFrom(whole.description)
    both.pipeline.models.extend([first, last])
    with Session(models.written(both, tmp_path, "pipeline"), device=device) as session:
        result = session.update(data)
        found = session.run({"x": data["x"][0]})["y"]
        session.save(tmp_path / "saved.mlmodel")
    assert result.losses[-1] < result.losses[0]
    saved = pb.Model.FromString((tmp_path / "saved.mlmodel").read_bytes())
    learned = saved.pipeline.models[1].neuralNetwork.layers[0].innerProduct.weights.floatValue
    np.testing.assert_allclose(learned, expected, rtol=1e-4, atol=1e-6)
    with Session(tmp_path / "saved.mlmodel", device=device) as session:
        np.testing.assert_allclose(session.run({"x": data["x"][0]})["y"], found, rtol=1e-5)


def test_weights_of_16_bits_become_32(tmp_path: Path) -> None:
    made = models.regressor()
    params = made.neuralNetworkRegressor.layers[2].innerProduct.weights
    numbers = np.array(params.floatValue, np.float16)
    params.ClearField("floatValue")
    params.float16Value = numbers.tobytes()
    found = after_an_epoch(made, tmp_path, points())
    assert found.size == 8
    assert np.abs(found - numbers).max() > 1e-4


def test_the_frozen_part_changes_nothing(tmp_path: Path, monkeypatch: Any, device: Any) -> None:
    found = []
    for limit in (step.KEPT_BYTES, 0):
        monkeypatch.setattr(step, "KEPT_BYTES", limit)
        monkeypatch.setattr(runner, "_SMALL", limit)
        models._random = np.random.default_rng(11)
        path = models.written(models.regressor(), tmp_path)
        with Session(path, device=device) as session:
            session.update(points(), epochs=3, shuffle=True, seed=7)
            found.append(stored(session)["trained/weights"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-7)


@pytest.mark.device
def test_a_session_in_fp16_trains_in_fp32(tmp_path: Path) -> None:
    skip_without_half()
    found = []
    for precision in ("fp32", "fp16"):
        models._random = np.random.default_rng(11)
        path = models.written(models.regressor(), tmp_path)
        with Session(path, device=shared_device(), precision=precision) as session:
            result = session.update(points())
            session.run({"x": points()["x"][0]})
            found.append(result.losses)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
