"""The engines by name: their wheels, and the formats of their models."""

from __future__ import annotations

import importlib.util
import os
import platform
from dataclasses import dataclass
from types import MappingProxyType

from vknn.errors import VknnError
from vknn.formats import Model

_OPENVINO = (
    "OpenVINO reads the models that vknn does (IR up to version 7) up to release 2020.4 only, so "
    "it cannot run here: record what an older one gives (docs/verification.md has the script, for "
    "opencv-python-inference-engine 4.2.0.3 and Python 3.8) and compare with --against FILE.npz"
)


@dataclass(frozen=True)
class EngineKind:
    """An engine. ``format``: the package of :mod:`vknn.formats` that reads its models.

    ``module``: what is imported of ``wheel``, a name on PyPI. ``files``: its files, in words.
    """

    name: str
    wheel: str
    module: str
    format: str
    files: str


_KINDS = (
    EngineKind("ncnn", "ncnn", "ncnn", "ncnn", ".param and .bin"),
    EngineKind("litert", "ai-edge-litert", "ai_edge_litert", "tflite", ".tflite"),
    EngineKind("onnxruntime", "onnxruntime", "onnxruntime", "onnx", ".onnx"),
    EngineKind("coremltools", "coremltools", "coremltools", "coreml", ".mlmodel"),
    EngineKind("openvino", "openvino", "openvino", "openvino", ".xml and .bin"),
)
ENGINES = MappingProxyType({kind.name: kind for kind in _KINDS})


def check_engine(kind: EngineKind, model: Model) -> str:
    """The model's file, where the engine can run it here.

    Raises VknnError, which says what to do, where it cannot.
    """
    parts = type(model).__module__.split(".")
    own = parts[2] if parts[:2] == ["vknn", "formats"] and len(parts) > 2 else "another"
    if own != kind.format:
        fitting = next((k.name for k in _KINDS if k.format == own), None)
        hint = f": use {fitting}" if fitting is not None else ""
        raise VknnError(
            f"{model.file}: {kind.name} runs models of the format {kind.format} ({kind.files}), "
            f"and this is one of the format {own}{hint}"
        )
    if kind.name == "openvino":
        raise VknnError(f"{model.file}: {_OPENVINO}")
    if kind.name == "coremltools" and platform.system() != "Darwin":
        raise VknnError(
            f"{model.file}: coremltools runs models on a Mac only: record its answers there "
            "(docs/verification.md) and compare with --against FILE.npz"
        )
    if importlib.util.find_spec(kind.module) is None:
        raise VknnError(f"{kind.name} is not installed: pip install {kind.wheel}")
    if model.file is None or not os.path.isfile(model.file):
        raise VknnError(f"{kind.name} needs the model as a file: open it by its path")
    return model.file
