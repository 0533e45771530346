"""Writes small .mlmodel files, right ones and wrong ones, and runs them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vknn
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.runtime import Device

FLOAT32 = 65568


def weights(array: Any) -> Any:
    """WeightParams with float32 values."""
    return pb.WeightParams(floatValue=np.asarray(array, np.float32).reshape(-1).tolist())


def half_weights(array: Any) -> Any:
    """WeightParams with float16 values."""
    return pb.WeightParams(float16Value=np.asarray(array, "<f2").tobytes())


def packed(codes: Any, bits: int) -> bytes:
    """Unsigned codes, one behind the other, most significant bit first."""
    text = "".join(f"{int(code):0{bits}b}" for code in np.asarray(codes).reshape(-1))
    text += "0" * (-len(text) % 8)
    return int(text or "0", 2).to_bytes(len(text) // 8, "big")


def linear_weights(codes: Any, bits: int, scale: Any, bias: Any = ()) -> Any:
    """WeightParams with linear quantization; scale and bias are one number, or one a channel."""
    message = pb.WeightParams(rawValue=packed(codes, bits))
    message.quantization.numberOfBits = bits
    linear = message.quantization.linearQuantization
    linear.scale.extend(np.atleast_1d(np.asarray(scale, np.float32)).tolist())
    linear.bias.extend(np.atleast_1d(np.asarray(bias, np.float32)).tolist())
    return message


def table_weights(codes: Any, bits: int, table: Any) -> Any:
    """WeightParams with a look-up table."""
    message = pb.WeightParams(rawValue=packed(codes, bits))
    message.quantization.numberOfBits = bits
    message.quantization.lookupTableQuantization.floatValue.extend(
        np.asarray(table, np.float32).tolist()
    )
    return message


def layer(
    kind: str,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    *,
    name: str | None = None,
    **params: Any,
) -> Any:
    """A layer; ``params`` fill its message: ``layer("softmaxND", axis=-1)``.

    A dictionary is a message inside, a list a repeated field, an enum's value its name or number:
    ``layer("activation", leakyReLU={"alpha": 0.1})``, ``layer("scale", scale=weights(s), ...)``.
    """
    message = pb.NeuralNetworkLayer(
        name=kind if name is None else name, input=list(inputs), output=list(outputs)
    )
    inner = getattr(message, kind)
    inner.SetInParent()
    for key, value in params.items():
        fill(inner, key, value)
    return message


def fill(message: Any, key: str, value: Any) -> None:
    """Sets a field of a message."""
    field = message.DESCRIPTOR.fields_by_name[key]
    if isinstance(value, Mapping):
        inner = getattr(message, key)
        inner.SetInParent()
        for k, v in value.items():
            fill(inner, k, v)
    elif isinstance(value, list | tuple | np.ndarray):
        entries = value.tolist() if isinstance(value, np.ndarray) else list(value)
        for entry in entries:
            if isinstance(entry, Mapping):
                inner = getattr(message, key).add()
                for k, v in entry.items():
                    fill(inner, k, v)
            else:
                getattr(message, key).append(entry)
    elif field.message_type is not None:
        getattr(message, key).CopyFrom(value)
    else:
        if field.enum_type is not None and isinstance(value, str):
            value = field.enum_type.values_by_name[value].number
        setattr(message, key, value)


def network(layers: Sequence[Any]) -> Any:
    """Layers as a network, for branches and loops."""
    return pb.NeuralNetwork(layers=list(layers))


def array_feature(name: str, shape: Sequence[int] = (), dtype: int = FLOAT32) -> Any:
    """The description of a multi array."""
    feature = pb.FeatureDescription(name=name)
    feature.type.multiArrayType.shape.extend(int(d) for d in shape)
    feature.type.multiArrayType.dataType = dtype
    return feature


def model(
    layers: Sequence[Any],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str] = ("y",),
    *,
    rank5: bool = False,
    kind: str = "neuralNetwork",
) -> Any:
    """A Model whose inputs are multi arrays of these shapes, its outputs without shapes."""
    message = pb.Model(specificationVersion=1 if rank5 else 5)
    message.description.input.extend(array_feature(n, s) for n, s in inputs.items())
    message.description.output.extend(array_feature(n) for n in outputs)
    part = getattr(message, kind)
    part.SetInParent()
    part.layers.extend(layers)
    if not rank5:
        part.arrayInputShapeMapping = pb.EXACT_ARRAY_MAPPING
        part.imageInputShapeMapping = pb.RANK4_IMAGE_MAPPING
    return message


def suppression(
    inputs: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] = ("confidence", "coordinates"),
    labels: Sequence[str | int] = (),
    *,
    by_class: bool = True,
    **fields: Any,
) -> Any:
    """A Model that suppresses boxes; ``fields`` override those of its message.

    ``inputs``: the shapes of "scores" and "boxes"; those of all features are free by default.
    """
    shapes = {"scores": (), "boxes": ()} if inputs is None else inputs
    message = pb.Model(specificationVersion=3)
    message.description.input.extend(array_feature(n, s) for n, s in shapes.items())
    message.description.output.extend(array_feature(n) for n in outputs)
    part = message.nonMaximumSuppression
    part.pickTop.perClass = by_class
    if labels:
        kind = "stringClassLabels" if isinstance(labels[0], str) else "int64ClassLabels"
        getattr(part, kind).vector.extend(labels)
    names = {
        "confidenceInputFeatureName": "scores", "coordinatesInputFeatureName": "boxes",
        "confidenceOutputFeatureName": "confidence", "coordinatesOutputFeatureName": "coordinates",
    }  # fmt: skip
    for key, value in ({"iouThreshold": 0.5, "confidenceThreshold": 0.25} | names | fields).items():
        setattr(part, key, value)
    return message


def number_feature(name: str, optional: bool = False) -> Any:
    """The description of a double."""
    feature = pb.FeatureDescription(name=name)
    feature.type.doubleType.SetInParent()
    feature.type.isOptional = optional
    return feature


def session(message: Any, device: str | Device = "numpy", **options: Any) -> vknn.Session:
    """A session for a Model message (or bytes)."""
    data = message if isinstance(message, bytes) else message.SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.mlmodel"
        path.write_bytes(data)
        return vknn.Session(path, device=device, **options)


def run(
    layers: Sequence[Any] | Any,
    feeds: Mapping[str, np.ndarray],
    outputs: Sequence[str] = ("y",),
    *,
    device: str | Device = "numpy",
    rank5: bool = False,
) -> dict[str, Any]:
    """Runs layers (or a single one) on arrays, whose shapes are those of the model's inputs."""
    several = list(layers) if isinstance(layers, list | tuple) else [layers]
    shapes = {name: np.shape(array) for name, array in feeds.items()}
    with session(model(several, shapes, outputs, rank5=rank5), device) as s:
        return s.run(feeds)


def run_everywhere(
    layers: Sequence[Any] | Any,
    feeds: Mapping[str, np.ndarray],
    outputs: Sequence[str] = ("y",),
    *,
    rank5: bool = False,
    on_device: bool = True,
    tolerance: float = 1e-4,
) -> dict[str, Any]:
    """The reference's outputs, compared with the device's (of the outputs' range) if there is one.

    ``on_device``: everything must be computed on the device, nothing on the host.
    """
    from tests.helpers import shared_device
    from tests.needs import device_is_there

    several = list(layers) if isinstance(layers, list | tuple) else [layers]
    shapes = {name: np.shape(array) for name, array in feeds.items()}
    message = model(several, shapes, outputs, rank5=rank5)
    with session(message) as host:
        wanted = host.run(feeds)
    if not device_is_there():
        return wanted
    with session(message, shared_device()) as device:
        found = device.run(feeds)
        if on_device:
            assert set(device.placement.values()) <= {"vulkan"}, device.placement
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        assert found[name].dtype == array.dtype, name
        near(found[name], array, tolerance)
    return wanted


def near(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-4) -> None:
    """Asserts equality within ``tolerance`` of the range of the finite values."""
    finite = np.isfinite(wanted)
    reach = max(1e-6, float(np.abs(wanted[finite]).max(initial=0.0)))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * reach)
