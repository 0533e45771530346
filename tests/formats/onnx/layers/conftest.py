"""Single operators by sessions, on both backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.onnx_writer import graph, model, node, save, value

from vknn import Session
from vknn.graph import DType

Run = Callable[..., list[Any]]


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Function that computes an operator: run("Add", [a, b], opset=21) gives its outputs.

    ``domain``, ``outputs`` (how many), ``fixed``: numbers of the inputs that are initializers; None
    among the inputs: left out. Other keyword arguments are attributes.
    """

    def compute(
        op_type: str,
        inputs: Sequence[np.ndarray | None],
        opset: int = 21,
        domain: str = "",
        outputs: int = 1,
        fixed: Sequence[int] = (),
        **attributes: Any,
    ) -> list[Any]:
        given = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
        names = " ".join(f"x{i}" if a is not None else "-" for i, a in enumerate(inputs))
        ends = [f"y{i}" for i in range(outputs)]
        stored = {f"x{i}": given[f"x{i}"] for i in fixed}
        fed = {name: array for name, array in given.items() if name not in stored}
        taken = [value(name, array.shape, DType.of(array)) for name, array in fed.items()]
        made = node(op_type, names, " ".join(ends), domain, **attributes)
        message = model(graph([made], taken, [value(n, None) for n in ends], stored), opset)
        if domain:
            message.opset_import.add(domain=domain, version=1)
        device = "numpy" if request.param == "numpy" else shared_device()
        with Session(save(message, tmp_path), device=device) as session:
            found = session.run(fed)
        return [found[name] for name in ends]

    return compute
