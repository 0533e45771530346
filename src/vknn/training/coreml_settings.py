"""NetworkUpdateParameters as settings and losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.training.settings import Setting, Settings
from vknn.training.task import CROSS_ENTROPY, SQUARED_ERROR, Loss

_KINDS = {
    "categoricalCrossEntropyLossLayer": CROSS_ENTROPY,
    "meanSquaredErrorLossLayer": SQUARED_ERROR,
}
_OPTIMIZERS = {"sgdOptimizer": "sgd", "adamOptimizer": "adam"}
_EPOCHS = Setting("epochs", whole=True, least=1)
_SHUFFLE = Setting("shuffle", truth=True)
_SEED = Setting("seed", whole=True)
#: Settings of the optimizers by their fields.
_FIELDS = {
    "learningRate": Setting("learning_rate", least=0),
    "miniBatchSize": Setting("mini_batch_size", whole=True, least=1),
    "momentum": Setting("momentum", least=0),
    "beta1": Setting("beta1", least=0, most=1),
    "beta2": Setting("beta2", least=0, most=1),
    "eps": Setting("eps", least=0),
}


def read_settings(update: Any, file: str | None) -> Settings:
    """The settings of a network's update parameters."""
    kind = update.optimizer.WhichOneof("OptimizerType")
    if kind is None:
        raise ModelFormatError("its update parameters name no optimizer", file=file)
    optimizer = getattr(update.optimizer, kind)
    found = [_setting(s, optimizer, f) for f, s in _FIELDS.items() if hasattr(optimizer, f)]
    found += [
        _setting(_EPOCHS, update, "epochs"),
        _setting(_SHUFFLE, update, "shuffle"),
        _setting(_SEED, update, "seed"),
    ]
    return Settings(_OPTIMIZERS[kind], {s.name: s for s in found})


def read_losses(
    update: Any, classes: int | None, file: str | None
) -> tuple[tuple[Loss, ...], tuple[str, ...]]:
    """The losses, and the names of their targets."""
    if not update.lossLayers:
        raise ModelFormatError("its update parameters name no loss layer", file=file)
    losses, targets = [], []
    for layer in update.lossLayers:
        kind = layer.WhichOneof("LossLayerType")
        if kind is None:
            raise UnsupportedLayerError([f"loss {layer.name!r} is of no known type"], file=file)
        params = getattr(layer, kind)
        if not params.input or not params.target:
            what = f"loss {layer.name!r} names no {'input' if not params.input else 'target'}"
            raise ModelFormatError(what, file=file)
        of_classes = classes if _KINDS[kind] == CROSS_ENTROPY else None
        losses.append(Loss(layer.name, _KINDS[kind], params.input, of_classes))
        targets.append(params.target)
    return tuple(losses), tuple(targets)


def _setting(setting: Setting, message: Any, field: str) -> Setting:
    """The setting with what the file says of it."""
    if not message.HasField(field):
        return setting
    parameter = getattr(message, field)
    found: Mapping[str, Any] = {"default": parameter.defaultValue}
    if setting.truth:
        return replace(setting, **found)
    kind = parameter.WhichOneof("AllowedValues")
    if kind == "range":
        found = {**found, "low": parameter.range.minValue, "high": parameter.range.maxValue}
    elif kind == "set":
        found = {**found, "allowed": tuple(parameter.set.values)}
    return replace(setting, **found)
