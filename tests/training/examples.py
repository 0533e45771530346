"""Examples to learn from, and looks at what was learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.training import models

from vknn.session import Session

LABELS = ("cat", "dog", "owl")


def pictures(count: int = 10) -> dict[str, Any]:
    """Examples of three kinds of noise."""
    random = np.random.default_rng(4)
    kinds = random.integers(0, 3, count)
    x = random.standard_normal((count, 2, 9, 9)) + 1.5 * kinds[:, None, None, None]
    return {"x": x.astype(np.float32), "label": [LABELS[k] for k in kinds]}


def points(count: int = 10) -> dict[str, Any]:
    """Examples of a smooth function."""
    x = np.random.default_rng(5).standard_normal((count, 3)).astype(np.float32)
    y = np.stack([x.sum(1), np.sin(x[:, 0])], 1)
    return {"x": x, "y_true": y.astype(np.float32)}


def stored(session: Session) -> dict[str, np.ndarray]:
    """The weights in the session's model."""
    found = {}
    network = session.model.part  # type: ignore[attr-defined]
    for layer in network.layers:
        params = getattr(layer, layer.WhichOneof("layer"))
        for field in ("weights", "bias"):
            if hasattr(params, field):
                found[f"{layer.name}/{field}"] = np.array(
                    getattr(params, field).floatValue, np.float32
                )
    return found


def after_an_epoch(made: Any, folder: Path, data: dict[str, Any]) -> np.ndarray:
    """The trained weights behind one epoch in mini-batches of 4."""
    with Session(models.written(made, folder), device="numpy") as session:
        session.update(data, epochs=1)
        return stored(session)["trained/weights"]
