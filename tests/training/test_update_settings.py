"""What a training is told: settings, progress, examples and their targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.training import models
from tests.training.examples import pictures, points, stored

from vknn.errors import InputError, VknnError
from vknn.session import Session
from vknn.training import Progress


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
