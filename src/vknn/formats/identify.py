"""Description of files that no format recognizes, for error messages."""

from __future__ import annotations

import json

_OLD_PYTORCH = b"\x80\x02\x8a\x0a"
_BUNDLE = b"\x89VKB\r\n\x1a\n"
_ONNX = "an ONNX model"

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, _BUNDLE, "a bundle that vknn export wrote"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras or Caffe weights)"),
    (0, b"PK\x03\x04", "a zip archive (PyTorch, Keras and NumPy .npz files are zip archives)"),
    (0, _OLD_PYTORCH, "an old PyTorch file"),
    (0, b"\x80", "a Python pickle"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"GGUF", "a GGUF model"),
    (4, b'\0\0\0\0{"', "a safetensors file (weights without their network)"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"\x7fELF", "an ELF program or library"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"\x03\x02\x23\x07", "SPIR-V"),
    (0, b"\xdd\x85\x76\x00", "an ncnn .param.bin"),
    (0, b"<?xml", "an XML file"),
    (0, b"<net", "an XML file (OpenVINO IR)"),
)


_DIRECTORIES = (
    (
        ".mlpackage",
        "this is a Core ML package, a directory; vknn reads the single file of a neural "
        "network (.mlmodel), which may lie in it under Data/com.apple.CoreML; convert an ML "
        'program\'s network anew with coremltools.convert(..., convert_to="neuralnetwork")',
    ),
    (
        ".mlmodelc",
        "this is a Core ML model compiled for Apple's systems; vknn reads what it was compiled "
        "from (.mlmodel)",
    ),
)


def identify_directory(name: str) -> str:
    """A sentence for the user about a directory of this name that was given as a model."""
    for suffix, words in _DIRECTORIES:
        if name.lower().endswith(suffix):
            return words
    return "this is a directory, not a model file"


def remedy(head: bytes, name: str) -> str:
    """A sentence on how to get a model that vknn reads from this file; empty for other files."""
    suffix = name.lower().rpartition(".")[2]
    if suffix == "onnx":
        return "it is no ONNX model either: fetch or export it again"
    zipped = head.startswith(b"PK\x03\x04")
    if head.startswith(_OLD_PYTORCH) or (zipped and suffix in ("pt", "pth", "pt2", "ckpt")):
        return (
            "write an ONNX model in PyTorch with torch.onnx.export(model, (example,), "
            "'model.onnx'), or trace it (torch.jit.trace) and convert that: `pnnx model.pt "
            "inputshape=[1,3,224,224]` writes an ncnn model"
        )
    if suffix == "safetensors":
        return (
            "load it into its network in PyTorch, and write that as an ONNX model with "
            "torch.onnx.export"
        )
    if suffix in ("keras", "h5", "hdf5"):
        return "convert it with tf.lite.TFLiteConverter.from_keras_model to TensorFlow Lite"
    if head.startswith(_BUNDLE):
        return "`vknn bundle` shows what is in it and runs it with --check, and vknn-run runs it"
    if suffix == "json" and b'"driver": ' in head and b'"runs": ' in head:
        return "`vknn report` shows profiles of vknn-run"
    return ""


def identify(head: bytes) -> str:
    """A few words for the user about the kind of a file that starts with ``head``."""
    if not head:
        return "an empty file"
    for offset, signature, words in _SIGNATURES:
        if head[offset : offset + len(signature)] == signature:
            return words
    if head[:1] == b"\x08" and any(mark in head for mark in (b"pytorch", b"onnx", b"tf2onnx")):
        return _ONNX
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError:
        return "an unknown binary file"
    if not text.isprintable() and any(ord(c) < 32 and not c.isspace() for c in text):
        return "an unknown binary file"
    return "a JSON file" if _is_json_start(text) else "a text file of unknown format"


def _is_json_start(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos > 1
    return True
