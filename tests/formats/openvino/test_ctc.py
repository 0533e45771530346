"""CTCGreedyDecoder, against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Many, refuse


def decoded(x: np.ndarray, alive: np.ndarray | None, merge: bool) -> np.ndarray:
    steps, items, classes = x.shape
    y = np.full((items, steps, 1, 1), -1, np.float32)
    for item in range(items):
        found, before = [], -1
        for step in range(steps):
            if step and alive is not None and alive[step, item] == 0:
                break
            best = int(np.argmax(x[step, item]))
            if best < classes - 1 and not (merge and best == before):
                found.append(best)
            before = best
        y[item, : len(found), 0, 0] = found
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_decoder(backend: str, tmp_path: Path) -> None:
    many = Many()
    rng = np.random.default_rng(0)
    for number, shape in enumerate(((8, 1, 3), (20, 3, 2), (1, 2, 4), (12, 2, 1), (30, 4, 5))):
        x = rng.uniform(0, 1, shape).astype(np.float32)
        if number % 2:  # equal ones
            x = (np.round(x * 2) / 2).astype(np.float32)
        alive = (rng.uniform(0, 1, shape[:2]) < 0.9).astype(np.float32)
        for merge in (0, 1):
            attributes = {"ctc_merge_repeated": merge}
            y = decoded(x, alive, bool(merge))
            many.add("CTCGreedyDecoder", [x, alive], y, attributes)
            many.add("CTCGreedyDecoder", [x], decoded(x, None, bool(merge)), attributes)
        y = decoded(x, alive, False)
        many.add("CTCGreadyDecoder", [x, alive], y, {"stride": 1})
    many.check(backend, tmp_path)


def test_wrong_ones(tmp_path: Path) -> None:
    x, alive = np.zeros((4, 2, 3), np.float32), np.ones((4, 2), np.float32)
    shape = [(2, 4, 1, 1)]
    name = "CTCGreedyDecoder"
    refuse(tmp_path, name, [x[0], alive], shape, {}, "probabilities")
    refuse(tmp_path, name, [x, alive.T], shape, {}, "indicators")
    refuse(tmp_path, name, [x, alive], shape, {"ctc_merge_repeated": "maybe"}, "ctc_merge_repeated")
