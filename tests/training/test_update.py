"""Updatable models made for the test: what they learn, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device, skip_without_half
from tests.small_model import write_small_model
from tests.training import models

from vknn.errors import InputError, ModelFormatError, UnsupportedLayerError, VknnError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.session import Session
from vknn.training import Progress, runner, step

LABELS = ("cat", "dog", "owl")


def pictures(count: int = 10) -> dict[str, Any]:
    """Examples of three kinds of noise."""
    random = np.random.default_rng(4)
    kinds = random.integers(0, 3, count)
    x = random.standard_normal((count, 2, 9, 9)) + 1.5 * kinds[:, None, None, None]
    return {"x": x.astype(np.float32), "label": [LABELS[k] for k in kinds]}


def points(count: int = 10) -> dict[str, Any]:
    """Examples of a smooth function."""
    x = np.random.default_rng(5).standard_normal((count, 3)).astype(np.float32)
    y = np.stack([x.sum(1), np.sin(x[:, 0])], 1)
    return {"x": x, "y_true": y.astype(np.float32)}


def stored(session: Session) -> dict[str, np.ndarray]:
    """The weights in the session's model."""
    found = {}
    network = session.model.part  # type: ignore[attr-defined]
    for layer in network.layers:
        params = getattr(layer, layer.WhichOneof("layer"))
        for field in ("weights", "bias"):
            if hasattr(params, field):
                found[f"{layer.name}/{field}"] = np.array(
                    getattr(params, field).floatValue, np.float32
                )
    return found


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


def after_an_epoch(made: Any, folder: Path, data: dict[str, Any]) -> np.ndarray:
    """The trained weights behind one epoch in mini-batches of 4."""
    with Session(models.written(made, folder), device="numpy") as session:
        session.update(data, epochs=1)
        return stored(session)["trained/weights"]


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


def test_a_seed_makes_a_training_repeatable(tmp_path: Path) -> None:
    path = models.written(models.regressor(), tmp_path)
    found = []
    for seed in (3, 3, 4):
        with Session(path, device="numpy") as session:
            session.update(points(), shuffle=True, seed=seed)
            found.append(stored(session)["trained/weights"])
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_the_models_own_order(tmp_path: Path) -> None:
    """Its seed and its wish to shuffle are taken, and can be overridden."""
    made = models.regressor()
    update = made.neuralNetworkRegressor.updateParams
    update.shuffle.defaultValue, update.seed.defaultValue = True, 5
    path = models.written(made, tmp_path)
    found = []
    for settings in ({}, {"seed": 5, "shuffle": True}, {"shuffle": False}):
        with Session(path, device="numpy") as session:
            session.update(points(), **settings)
            found.append(stored(session)["trained/weights"])
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_the_values_that_a_file_allows(tmp_path: Path) -> None:
    made = models.regressor()
    update = made.neuralNetworkRegressor.updateParams
    sgd = update.optimizer.sgdOptimizer
    sgd.learningRate.range.maxValue = 0.5
    sgd.miniBatchSize.set.values.extend([2, 4])
    update.epochs.range.minValue, update.epochs.range.maxValue = 1, 3
    with Session(models.written(made, tmp_path), device="numpy") as session:
        session.update(points(), learning_rate=0.5, mini_batch_size=2, epochs=3)
        with pytest.raises(InputError, match="learning_rate is 0.6; the model allows 0 to 0.5"):
            session.update(points(), learning_rate=0.6)
        with pytest.raises(InputError, match="mini_batch_size is 3; the model allows 2, 4"):
            session.update(points(), mini_batch_size=3)
        with pytest.raises(InputError, match="epochs is 4; the model allows 1 to 3"):
            session.update(points(), epochs=4)


def test_several_losses_are_added_up(tmp_path: Path) -> None:
    """The same loss twice is a loss with twice the learning rate."""
    made, data = models.regressor(), points()
    with Session(models.written(made, tmp_path), device="numpy") as session:
        session.update(data, learning_rate=0.1)
        expected = stored(session)["trained/weights"]
    loss = made.neuralNetworkRegressor.updateParams.lossLayers.add(name="again")
    loss.meanSquaredErrorLossLayer.input = "y"
    loss.meanSquaredErrorLossLayer.target = "other"
    models.array_feature(made.description.trainingInput, "other", 2)
    with Session(models.written(made, tmp_path), device="numpy") as session:
        with pytest.raises(InputError, match="the target 'other' is missing"):
            session.update(data)
        session.update({**data, "other": data["y_true"]}, learning_rate=0.05)
        found = stored(session)["trained/weights"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_examples_come_in_any_iterable(tmp_path: Path) -> None:
    path = models.written(models.regressor(), tmp_path)
    data = points()
    singles = [{n: v[i] for n, v in data.items()} for i in range(10)]
    found = []
    for batches in (data, singles, iter(singles), tuple(singles)):
        with Session(path, device="numpy") as session:
            session.update(batches)
            found.append(stored(session)["trained/weights"])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_progress_is_told_and_can_stop(tmp_path: Path) -> None:
    seen: list[Progress] = []

    def tell(now: Progress) -> bool:
        seen.append(now)
        return len(seen) < 5

    path = models.written(models.regressor(), tmp_path)
    with Session(path, device="numpy") as session:
        before = stored(session)["trained/weights"]
        result = session.update(points(), epochs=4, progress=tell)
        assert (stored(session)["trained/weights"] != before).any()
    places = [(p.epoch, p.epochs, p.batch, p.batches) for p in seen]
    assert places == [(1, 4, 1, 3), (1, 4, 2, 3), (1, 4, 3, 3), (2, 4, 1, 3), (2, 4, 2, 3)]
    assert result.stopped
    assert (result.epochs, result.steps) == (2, 5)
    assert seen[2].loss == result.losses[0]


def test_progress_as_a_line(tmp_path: Path, capsys: Any) -> None:
    with Session(models.written(models.regressor(), tmp_path), device="numpy") as session:
        session.update(points(), progress=True)
    assert "epoch 2/2" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["dog", np.str_("dog"), b"dog", {"cat": 0.1, "dog": 0.9}])
def test_classes_by_label(tmp_path: Path, target: object) -> None:
    x = pictures(2)["x"]
    with Session(models.written(models.classifier(), tmp_path), device="numpy") as session:
        session.update([{"x": x[0], "label": target}], epochs=1)
        found = stored(session)["dense2/bias"]
    with Session(tmp_path / "model.mlmodel", device="numpy") as session:
        session.update([{"x": x[0], "label": "dog"}], epochs=1)
        np.testing.assert_array_equal(found, stored(session)["dense2/bias"])


def test_labels_that_are_numbers_are_no_indices(tmp_path: Path) -> None:
    path = models.written(models.classifier(labels=(7, 8, 9)), tmp_path)
    x = pictures(2)["x"]
    with Session(path, device="numpy") as session:
        for label in (8, np.int32(9), np.array([7.0])):
            session.update([{"x": x[0], "label": label}], epochs=1)
        with pytest.raises(InputError, match="example 0: target 'label' is 1, which is no class"):
            session.update([{"x": x[0], "label": 1}])


def test_a_target_that_is_an_index(tmp_path: Path) -> None:
    made = models.classifier()
    loss = made.neuralNetworkClassifier.updateParams.lossLayers[0]
    loss.categoricalCrossEntropyLossLayer.target = "index"
    x = pictures(2)["x"][0]
    with Session(models.written(made, tmp_path), device="numpy") as session:
        for target in (2, np.array([1]), "owl"):
            session.update([{"x": x, "index": target}], epochs=1)
        session.update([{"x": x, "label": "owl"}], epochs=1)
        with pytest.raises(InputError, match="class 3 is none of 0 to 2"):
            session.update([{"x": x, "index": 3}])
        with pytest.raises(InputError, match="neither a label nor an index"):
            session.update([{"x": x, "index": 0.5}])


@pytest.mark.parametrize(
    "example, message",
    [
        ({"x": np.zeros((2, 9, 9))}, "example 1: the target 'label' is missing"),
        ({"label": "cat"}, "example 1: missing input 'x'"),
        ({"x": np.zeros((2, 9, 8)), "label": "cat"}, "example 1: input 'x' has the shape"),
        ({"x": np.zeros((2, 9, 9)), "label": "cow"}, "'cow', which is no class label"),
        ({"x": np.zeros((2, 9, 9)), "label": "cat", "z": 1}, "unknown feature 'z'"),
        ({"x": np.zeros((2, 9, 9)), "label": [1, 2]}, "neither a label nor an index"),
        (5, "example 1 is a int, not a dict"),
    ],
)
def test_examples_that_do_not_fit(tmp_path: Path, example: Any, message: str) -> None:
    good = {"x": np.zeros((2, 9, 9), np.float32), "label": "cat"}
    with (
        Session(models.written(models.classifier(), tmp_path), device="numpy") as session,
        pytest.raises(InputError, match=message),
    ):
        session.update([good, example])


def test_targets_that_do_not_fit(tmp_path: Path) -> None:
    with Session(models.written(models.regressor(), tmp_path), device="numpy") as session:
        x = np.zeros(3, np.float32)
        with pytest.raises(InputError, match="example 0: its target has 3 numbers, not 2"):
            session.update([{"x": x, "y_true": x}])
        with pytest.raises(InputError, match="takes numbers"):
            session.update([{"x": x, "y_true": "a"}])
        with pytest.raises(InputError, match="no examples"):
            session.update([])
        with pytest.raises(InputError, match="different numbers of examples: 'x' has 2"):
            session.update({"x": [x, x], "y_true": [x[:2]]})
        with pytest.raises(InputError, match="the model's optimizer, sgd, has no such"):
            session.update([{"x": x, "y_true": x[:2]}], beta1=0.5)


def test_a_training_that_diverges_leaves_the_model(tmp_path: Path) -> None:
    with Session(models.written(models.regressor(), tmp_path), device="numpy") as session:
        before = stored(session)
        with (
            pytest.raises(VknnError, match="the loss became"),
            np.errstate(over="ignore", invalid="ignore"),
        ):
            session.update(points(), learning_rate=1e6, epochs=100)
        after = stored(session)
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


def altered(change: Any, kind: Any = models.regressor) -> Any:
    """A model, changed."""
    made = kind()
    change(made, models.network_of(made))
    return made


def _only(attribute: str, value: object) -> Any:
    return lambda made, network: setattr(made, attribute, value)


def _argmax(made: Any, network: Any) -> None:
    network.layers[2].output[0] = "before"
    models.layer(made, "best", "before", "best").argMax.axis = -3
    models.layer(made, "both", "best best", "y").concat.SetInParent()


def _dynamic(made: Any, network: Any) -> None:
    network.layers[2].output[0] = "before"
    models.layer(made, "places", "before", "y").whereNonZero.SetInParent()


def _random_numbers(made: Any, network: Any) -> None:
    network.layers[2].output[0] = "before"
    models.layer(made, "noise", "before", "noise").randomNormalLike.seed = -1
    models.layer(made, "sum", "before noise", "y").add.SetInParent()


def _floor(made: Any, network: Any) -> None:
    network.layers[2].output[0] = "before"
    models.layer(made, "steps", "before", "y").floor.SetInParent()


def _recurrent(made: Any, network: Any) -> None:
    network.layers[2].output[0] = "before"
    params = models.layer(made, "memory", "before", "y").simpleRecurrent
    params.inputVectorSize = params.outputVectorSize = 2
    params.activation.tanh.SetInParent()
    models.weights(params.weightMatrix, 2, 2)
    models.weights(params.recursionMatrix, 2, 2)


REFUSED = [
    (_only("isUpdatable", False), VknnError, "not updatable"),
    (lambda m, n: n.ClearField("updateParams"), VknnError, "not updatable"),
    (lambda m, n: n.updateParams.ClearField("lossLayers"), ModelFormatError, "no loss layer"),
    (lambda m, n: n.updateParams.ClearField("optimizer"), ModelFormatError, "no optimizer"),
    (
        lambda m, n: n.updateParams.lossLayers.add(name="odd"),
        UnsupportedLayerError,
        "loss 'odd' is of no known type",
    ),
    (
        lambda m, n: setattr(n.layers[2], "isUpdatable", False),
        ModelFormatError,
        "none of its layers is",
    ),
    (
        lambda m, n: setattr(n.layers[1], "isUpdatable", True),
        UnsupportedLayerError,
        "layer 'sigmoid' .activation. is marked as updatable",
    ),
    (
        lambda m, n: setattr(n.layers[2].innerProduct.bias, "isUpdatable", False),
        ModelFormatError,
        "layer 'trained'.*its bias are not",
    ),
    (
        lambda m, n: setattr(
            n.updateParams.lossLayers[0].meanSquaredErrorLossLayer, "input", "nowhere"
        ),
        ModelFormatError,
        "'nowhere', which no layer makes",
    ),
    (
        lambda m, n: n.updateParams.lossLayers[0].categoricalCrossEntropyLossLayer.MergeFrom(
            pb.CategoricalCrossEntropyLossLayer(input="y", target="y_true")
        ),
        UnsupportedLayerError,
        "not the output of a softmax",
    ),
    (lambda m, n: n.updateParams.ClearField("epochs"), InputError, "gives no epochs"),
    (_argmax, UnsupportedLayerError, "argMax 'best'.*lets no gradient pass"),
    (_dynamic, UnsupportedLayerError, "'places'"),
    (_random_numbers, UnsupportedLayerError, "'noise' .* draws random numbers"),
    (_floor, UnsupportedLayerError, "floor 'steps'.*lets no gradient pass"),
    (_recurrent, UnsupportedLayerError, "simpleRecurrent 'memory'.*has no gradient"),
]


@pytest.mark.parametrize("change, error, message", REFUSED, ids=range(len(REFUSED)))
def test_models_that_cannot_be_trained(
    tmp_path: Path, change: Any, error: type[Exception], message: str
) -> None:
    data = points(3)
    if "softmax" in message:
        data["y_true"] = np.zeros(3, np.int64)
    with (
        Session(models.written(altered(change), tmp_path), device="numpy") as session,
        pytest.raises(error, match=message),
    ):
        session.update(data)


def test_layers_that_the_loss_does_not_depend_on_may_be_anything(tmp_path: Path) -> None:
    made = models.regressor()
    array = made.description.output.add(name="places").type.multiArrayType
    array.dataType = pb.ArrayFeatureType.FLOAT32
    models.layer(made, "places", "y", "places").whereNonZero.SetInParent()
    with Session(models.written(made, tmp_path), device="numpy") as session:
        result = session.update(points())
        assert result.losses[1] < result.losses[0]
        assert session.run({"x": points()["x"][0]})["places"].ndim


def test_other_formats_are_not_trained(tmp_path: Path) -> None:
    with Session(write_small_model(tmp_path), device="numpy") as session:
        with pytest.raises(VknnError, match="only updatable Core ML models"):
            session.update([{}])
        with pytest.raises(VknnError, match="only Core ML models can be written"):
            session.save(tmp_path / "small.mlmodel")


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
