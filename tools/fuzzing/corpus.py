"""Corpus: small files of all formats, with shapes of inputs, from the test data beside the project.

Of ncnn there are no vectors there: its small networks are those of tools/ncnn_examples.json, which
the peer tests recorded, and the models.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fuzzing.ncnn import fitting_weights
from vknn.formats.ncnn.reader import parse_param

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
FORMATS = ("ncnn", "tflite", "coreml", "openvino", "onnx")
#: Bytes of the files of one seed, at most.
LARGEST = 24 << 10
LARGEST_MODEL = 600 << 10

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Seed:
    """A right model: its files by suffix, and shapes of inputs by name or, as "", by position."""

    name: str
    files: Callable[[], dict[str, bytes]]
    shapes: Callable[[], Shapes] = field(default=dict)


@functools.cache
def corpus() -> Mapping[str, tuple[Seed, ...]]:
    """The seeds of each format."""
    found = {
        "ncnn": [*_examples(), *_ncnn_models()],
        "tflite": [*_tflite(), *_models("tflite", ".tflite")],
        "coreml": [*_folders("coreml", "model.mlmodel", "in/"), *_models("coreml", ".mlmodel")],
        "openvino": [
            *_folders("openvino", "model.xml", "run0/in/"),
            *_models("openvino", ".xml"),
        ],
        "onnx": [*_onnx(), *_models("onnx", ".onnx")],
    }
    return {name: tuple(sorted(seeds, key=lambda s: s.name)) for name, seeds in found.items()}


def _examples() -> list[Seed]:
    nets = json.loads((ROOT / "tools" / "ncnn_examples.json").read_text(encoding="utf-8"))
    return [
        Seed(
            f"ncnn/{layer}/{number}",
            functools.partial(_with_weights, net["param"].encode()),
            functools.partial(dict, {n: tuple(each["shape"]) for n, each in net["inputs"].items()}),
        )
        for layer, entry in nets.items()
        for number, net in enumerate(entry["nets"])
    ]


@functools.cache
def _with_weights(param: bytes) -> dict[str, bytes]:
    return {".param": param, ".bin": fitting_weights(parse_param(param), random.Random(0))}


def _ncnn_models() -> list[Seed]:
    """Networks with random weights in place of their own, which are too large."""
    paths = (SHARED / "models" / "ncnn").glob("*.param")
    return [Seed(f"models/{p.name}", functools.partial(_param_only, p)) for p in paths]


@functools.cache
def _param_only(path: Path) -> dict[str, bytes]:
    return {".param": path.read_bytes(), ".bin": b""}


def _tflite() -> list[Seed]:
    found = []
    for path in (SHARED / "vectors" / "tflite").glob("*/*.npz"):
        if path.stat().st_size < LARGEST:
            name = f"tflite/{path.parent.name}/{path.stem}"
            read = functools.partial(_packed_model, path)
            found.append(Seed(name, read, functools.partial(_shapes, path, "in")))
    return found


@functools.cache
def _packed_model(path: Path) -> dict[str, bytes]:
    with np.load(path, allow_pickle=True) as arrays:
        return {".tflite": arrays["model"].tobytes()}


def _folders(name: str, main: str, prefix: str) -> list[Seed]:
    found = []
    for path in (SHARED / "vectors" / name).glob(f"*/{main}"):
        if sum(f.stat().st_size for f in path.parent.glob("model.*")) < LARGEST:
            shapes = functools.partial(_shapes, path.parent / "data.npz", prefix)
            read = functools.partial(_beside, path)
            found.append(Seed(f"{name}/{path.parent.name}", read, shapes))
    return found


def _onnx() -> list[Seed]:
    index = SHARED / "vectors" / "onnx" / "index.json"
    found = []
    for case in json.loads(index.read_text()) if index.exists() else ():
        path = index.parent / case["id"] / "model.onnx"
        shapes = {s["name"]: tuple(s["shape"]) for s in case["inputs"] if s["kind"] == "tensor"}
        if path.stat().st_size < LARGEST:
            read = functools.partial(_beside, path)
            found.append(Seed(f"onnx/{case['id']}", read, functools.partial(dict, shapes)))
    return found


def _models(name: str, suffix: str) -> list[Seed]:
    found = []
    for path in (SHARED / "models" / name).glob(f"*{suffix}"):
        weights = path.with_suffix(".bin")
        size = path.stat().st_size + (weights.stat().st_size if weights.exists() else 0)
        if size < LARGEST_MODEL:
            found.append(Seed(f"models/{path.name}", functools.partial(_beside, path)))
    return found


@functools.cache
def _beside(path: Path) -> dict[str, bytes]:
    files = {path.suffix: path.read_bytes()}
    weights = path.with_suffix(".bin")
    if path.suffix == ".xml":
        files[".bin"] = weights.read_bytes() if weights.exists() else b""
    return files


@functools.cache
def _shapes(path: Path, prefix: str) -> Shapes:
    """Shapes of inputs by name; where the file only numbers them by "#" and number."""
    with np.load(path, allow_pickle=True) as arrays:
        names = [name for name in arrays.files if name.startswith(prefix)]
        shapes = {name: arrays[name].shape for name in names}
    if prefix == "in":
        return {f"#{name[2:]}": shape for name, shape in shapes.items()}
    return {name[len(prefix) :]: shape for name, shape in shapes.items()}
