"""LiteRT (TensorFlow Lite) on the CPU: every tensor that an operator makes."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.formats.tflite.loader import load
from vknn.formats.tflite.model import tensor_names


def run(
    model: str, weights: str | None, feeds: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray]]:
    """Name and version of the engine, and its tensors by name.

    Its reference kernels compute, which say what the format means: vknn has their codes bit by bit.
    The optimized ones differ from them by more than a step, and delegates hide what is inside. They
    take the place of the reference where it lacks an operator.
    """
    interpreter = _interpreter(model)
    main = load(Path(model)).main
    details = {d["index"]: d for d in interpreter.get_input_details()}
    inputs = dict(zip(main.inputs, tensor_names(main, main.inputs), strict=True))
    for index, name in inputs.items():
        if index in details and tuple(details[index]["shape"]) != feeds[name].shape:
            interpreter.resize_tensor_input(index, feeds[name].shape)
    interpreter.allocate_tensors()
    for index, name in inputs.items():
        if index in details:  # what nothing reads is left out of them
            interpreter.set_tensor(index, feeds[name])
    interpreter.invoke()
    made = [index for operator in main.operators for index in operator.outputs if index >= 0]
    names = dict(zip(made, tensor_names(main, made), strict=True))
    names |= dict(zip(main.outputs, tensor_names(main, main.outputs), strict=True))
    numbers = {i: n for i, n in names.items() if not main.tensors[i].resource}
    found = {name: _tensor(interpreter, index) for index, name in numbers.items()}
    version = importlib.metadata.version("ai-edge-litert")
    return f"LiteRT {version}", {n: a for n, a in found.items() if a is not None}


def _interpreter(model: str) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    def made(kernels: OpResolverType) -> Any:
        return Interpreter(
            model_path=model,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=kernels,
        )

    try:
        return made(OpResolverType.BUILTIN_REF)
    except ValueError as error:
        if "Didn't find op" not in str(error):
            raise
        return made(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def _tensor(interpreter: Any, index: int) -> np.ndarray | None:
    """A tensor, None of one that has no array."""
    try:
        return np.asarray(interpreter.get_tensor(index))
    except ValueError:
        return None
