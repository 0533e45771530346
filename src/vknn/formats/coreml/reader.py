"""Reader of .mlmodel bytes: messages and records, with checks of the structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.records import LayerRecord, NetworkRecord

NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
SUPPRESSION = "nonMaximumSuppression"
PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")
#: Networks inside networks, and pipelines inside pipelines.
MAX_DEPTH = 20

_NEURAL_NETWORK = (
    ': convert the network anew with coremltools.convert(..., convert_to="neuralnetwork")'
)
_KINDS = {
    "mlProgram": "an ML program (.mlpackage), Core ML's newer format",
    "treeEnsembleClassifier": "a tree ensemble",
    "treeEnsembleRegressor": "a tree ensemble",
    "supportVectorClassifier": "a support vector machine",
    "supportVectorRegressor": "a support vector machine",
    "glmClassifier": "a generalized linear model",
    "glmRegressor": "a generalized linear model",
    "bayesianProbitRegressor": "a Bayesian probit regressor",
    "kNearestNeighborsClassifier": "a nearest-neighbours classifier",
    "itemSimilarityRecommender": "a recommender",
    "customModel": "a custom model",
    "linkedModel": "a link to another model",
    "serializedModel": "an encrypted or wrapped model",
}


def parse_model(data: bytes, file: str | None = None) -> Any:
    """The Model message, of a neural network, a suppression of boxes or a pipeline of these.

    Raises ModelFormatError for bytes that are no model, and UnsupportedLayerError, naming the type,
    for models of other types.
    """
    if not data:
        raise ModelFormatError("the file is empty", file=file)
    model = pb.Model()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelFormatError(
            f"this is no Core ML model, or a damaged or truncated one ({error})", file=file
        ) from error
    check_kind(model, file)
    return model


def check_kind(model: Any, file: str | None = None, place: str = "", depth: int = 0) -> None:
    """Check: as :func:`parse_model` unless the model is of a kind that vknn runs."""
    kind = model.WhichOneof("Type")
    if kind is None:
        raise ModelFormatError(
            f"{place or 'the file'} holds no model of a type that Core ML has; it may be truncated",
            file=file,
        )
    if kind in (*NETWORKS, SUPPRESSION):
        return
    if kind not in PIPELINES:
        what = _KINDS.get(kind, "another type of model")
        problem = f"{place or 'the model'} is {what} ({kind}); vknn runs neural networks"
        if kind == "mlProgram":
            problem += _NEURAL_NETWORK
        raise UnsupportedLayerError([problem], file=file)
    if depth >= MAX_DEPTH:
        raise ModelFormatError(f"pipelines lie inside one another {depth} deep", file=file)
    models = pipeline_models(model)
    if not models:
        raise ModelFormatError(f"{place or 'the model'} is a pipeline without models", file=file)
    for number, stage in enumerate(models):
        inside = f"model {number} of {place or 'the pipeline'}"
        check_kind(stage, file, inside, depth + 1)


def pipeline_models(model: Any) -> Sequence[Any]:
    """The messages of a pipeline's models."""
    inner = getattr(model, model.WhichOneof("Type"))
    return inner.models if hasattr(inner, "models") else inner.pipeline.models


def read_network(message: Any, file: str | None = None) -> NetworkRecord:
    """The record of a network. Raises ModelFormatError, naming the layer."""
    return NetworkRecord(tuple(_layers(message, file, (), False)))


def _layers(
    message: Any, file: str | None, path: tuple[int, ...], in_body: bool
) -> Iterator[LayerRecord]:
    for number, layer in enumerate(message.layers):
        yield _layer(layer, file, (*path, number), in_body)


def _layer(message: Any, file: str | None, path: tuple[int, ...], in_body: bool) -> LayerRecord:
    name, kind = message.name, message.WhichOneof("layer")
    if kind is None:
        unknown = f"layer {path[-1]} has no type, or one of a newer Core ML than version 5 knows"
        raise ModelFormatError(unknown, file=file, layer=name)
    if len(path) > 2 * MAX_DEPTH:
        raise ModelFormatError(f"networks lie {MAX_DEPTH} deep", file=file, layer=name)
    params = getattr(message, kind)
    networks: list[NetworkRecord | None] = []
    for place, (field, body) in enumerate(_INSIDE.get(kind, ())):
        inner = getattr(params, field)
        inside = (*path, place)
        if params.HasField(field):
            records = _layers(
                inner, file, inside, (in_body or body) and field != "conditionNetwork"
            )
            networks.append(NetworkRecord(tuple(records)))
        else:
            networks.append(None)
    if kind in ("loopBreak", "loopContinue") and not in_body:
        raise ModelFormatError("it stands outside of a loop's body", file=file, layer=name)
    _check_names(message, file, name)
    return LayerRecord(
        name, kind, tuple(message.input), tuple(message.output), params, message,
        tuple(networks), path,
    )  # fmt: skip


#: The networks inside a layer, and whether they are bodies of loops.
_INSIDE = {
    "branch": (("ifBranch", False), ("elseBranch", False)),
    "loop": (("conditionNetwork", False), ("bodyNetwork", True)),
}


def _check_names(message: Any, file: str | None, name: str) -> None:
    for blob in (*message.input, *message.output):
        if not blob or "\0" in blob:
            raise ModelFormatError(f"{blob!r} is no name of a blob", file=file, layer=name)
    if len(set(message.output)) < len(message.output):
        raise ModelFormatError("it writes one blob twice", file=file, layer=name)
