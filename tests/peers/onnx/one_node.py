"""A model of one node, run with arrays; for what the test vectors leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.helpers import shared_device
from tests.onnx_writer import graph, model, node, save, value

from vknn.graph import DType
from vknn.session import Session

MICROSOFT = "com.microsoft"


def session_of(
    folder: Path, backend: str, operator: str, inputs: list[Any], outputs: int = 1,
    domain: str = MICROSOFT, fed: tuple[int, ...] = (0,), version: int = 21, **attributes: Any,
) -> tuple[Session, dict[str, np.ndarray]]:  # fmt: skip
    """A session on a node, and what is to be fed. ``fed``: inputs that are no initializers."""
    names = ["-" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    tensors = {n: a for i, (n, a) in enumerate(zip(names, inputs, strict=True)) if i not in fed}
    tensors.pop("-", None)
    feeds = {names[i]: np.asarray(inputs[i]) for i in fed}
    results = [f"y{i}" for i in range(outputs)]
    one = node(operator, " ".join(names), " ".join(results), domain, **attributes)
    ports = [
        value(n, a.shape, DType.STRING if a.dtype == object else DType.of(a))
        for n, a in feeds.items()
    ]
    body = graph([one], ports, [value(n, None) for n in results], tensors)
    message = model(body, version)
    message.opset_import.add(domain=MICROSOFT, version=1)
    device = "numpy" if backend == "numpy" else shared_device()
    return Session(save(message, folder), device=device), feeds


def run(folder: Path, backend: str, operator: str, inputs: list[Any], **more: Any) -> list[Any]:
    """The outputs of a node, in order."""
    session, feeds = session_of(folder, backend, operator, inputs, **more)
    with session:
        found = session.run(feeds)
        return [found[spec.name] for spec in session.outputs]
