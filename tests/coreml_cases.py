"""Many Core ML layers on the same blobs as one network, on both backends, against expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.coreml_writer import layer, near, run_everywhere


@dataclass(frozen=True)
class Case:
    """A layer, the blobs it reads, and what each of its outputs must be."""

    kind: str
    inputs: tuple[str, ...]
    expected: tuple[np.ndarray, ...]
    params: Mapping[str, Any]


def case(kind: str, expected: Any, *inputs: str, **params: Any) -> Case:
    """``expected``: an array, or a tuple of arrays for several outputs; no inputs: "x"."""
    several = expected if isinstance(expected, tuple) else (expected,)
    return Case(kind, inputs or ("x",), several, params)


def source(kind: str, expected: Any, **params: Any) -> Case:
    """A layer without inputs."""
    return Case(kind, (), (expected,), params)


def check(
    feeds: Mapping[str, np.ndarray],
    cases: Sequence[Case],
    *,
    rank5: bool = False,
    tolerance: float = 1e-5,
    on_device: bool = True,
) -> None:
    """Runs all cases as one network; shapes must be exact, numbers within the tolerance."""
    layers, names = [], []
    for number, each in enumerate(cases):
        outputs = [f"y{number}.{i}" for i in range(len(each.expected))]
        made = layer(each.kind, each.inputs, outputs, name=f"{each.kind} {number}", **each.params)
        layers.append(made)
        names += outputs
    found = run_everywhere(layers, feeds, names, rank5=rank5, on_device=on_device)
    for number, each in enumerate(cases):
        for i, wanted in enumerate(each.expected):
            y, wanted = found[f"y{number}.{i}"], np.asarray(wanted, np.float32)
            text = f"{each.kind} {dict(each.params)}"
            assert y.shape == wanted.shape, f"{text}: {y.shape}, not {wanted.shape}"
            try:
                near(y, wanted, tolerance)
            except AssertionError as problem:
                raise AssertionError(f"{text}: {problem}") from problem


def values(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
