"""Models that cannot be trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import write_small_model
from tests.training import models
from tests.training.examples import points

from vknn.errors import InputError, ModelFormatError, UnsupportedLayerError, VknnError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.session import Session


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
