"""Bundles of small networks, and vknn's own answers on the same device, for tests of the runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import write_small_model

import vknn
from vknn.bundle.runner import Runner

#: Both ways that memory goes.
PATHS = pytest.mark.parametrize("staged", [False, True], ids=["in place", "staged"])
MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"


@dataclass(frozen=True)
class Made:
    """A bundle, inputs for it, and what vknn's own runtime makes of them."""

    path: Path
    feeds: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


def made(
    folder: Path,
    model: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    device: str = "vulkan",
    **options: Any,
) -> Made:
    """A network exported for the limits of the device here, and run there by vknn."""
    with vknn.Session(model, device=device, **options) as session:
        rng = np.random.default_rng(7)
        feeds = {}
        for port in session.inputs:
            shape = tuple((shapes or {}).get(port.name) or port.shape)
            feeds[port.name] = rng.standard_normal(shape).astype(port.dtype)
        expected = {
            # A classifier's scores by label are an array to a runner, and it names no label.
            name: np.array([*v.values()], np.float32) if isinstance(v, Mapping) else v
            for name, v in session.run(feeds).items()
            if not isinstance(v, str | int)
        }
        limits = session.device.limits
    path = folder / f"{model.stem}.vkb"
    fixed = {name: array.shape for name, array in feeds.items()}
    vknn.export(model, path, shapes=fixed, targets=limits, **options)
    return Made(path, feeds, expected)


def small(folder: Path, **options: Any) -> Made:
    """A bundle of tests/small_model.py."""
    return made(folder, write_small_model(folder), {"data": (3, 8, 8)}, **options)


def answers(runner: Any, case: Made) -> dict[str, np.ndarray]:
    """What a runner makes of a case's inputs, in the shapes of vknn's own answers."""
    feeds = {
        name: case.feeds[name].reshape(port.shape).astype(port.dtype)
        for name, port in runner.inputs.items()
    }
    found = runner.run(feeds)
    return {n: found[n].reshape(array.shape) for n, array in case.expected.items()}


def check(case: Made, library: Path, **options: Any) -> None:
    """Asserts that a runner gives the bits of vknn's own answers, run after run."""
    with Runner(case.path, library=library, **options) as runner:
        for _ in range(2):
            found = answers(runner, case)
            for name, array in case.expected.items():
                np.testing.assert_array_equal(found[name], array, err_msg=name)


def input_of(model: Path) -> str:
    """The name of a network's one input."""
    with vknn.Session(model, device="cpu") as session:
        [port] = session.inputs
        return port.name
