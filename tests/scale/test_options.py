"""Options of jobs that are of other types than they should be, refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn.errors import InputError
from vknn.scale.options import Predictor

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"id": 5}, "id=5: expected the name of a column"),
        ({"keep": "url"}, "keep='url': expected a list of names"),
        ({"keep": [5]}, r"keep=\[5\]: expected a list of names"),
        ({"layers": "own.py"}, "layers='own.py': expected a list of names"),
        ({"size": "8x8"}, "size='8x8': expected a width and a height"),
        ({"size": (8, 0)}, "expected a width and a height"),
        ({"size": (1 << 20, 1 << 20)}, "at most 67108864 pixels"),
        ({"mean": [1.0, 2.0]}, "expected 1 or 3 numbers"),
        ({"mean": [float("nan")] * 3}, "expected 1 or 3 numbers"),
        ({"std": [1, 0, 1]}, "0 divides nothing"),
        ({"threshold": "high"}, "threshold='high': expected a number"),
        ({"threshold": float("nan")}, "threshold=nan: expected a number"),
        ({"labels": 5}, "labels=5: expected a list of names"),
    ],
)
def test_other_types(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Predictor("net.param", **options)


def test_numbers_of_numpy() -> None:
    """They are numbers, and job.json has place for Python's only."""
    own = Predictor(
        Path("net.param"), size=tuple(np.array([8, 9])), mean=np.ones(3, np.float32), keep={"url"}
    )
    assert (own.size, own.mean, own.keep) == ((8, 9), (1.0, 1.0, 1.0), ("url",))
    assert [type(n) for n in own.identity()["size"]] == [int, int]


def test_models_and_places() -> None:
    from vknn.scale.folder import Folder
    from vknn.scale.sources import find_source

    with pytest.raises(InputError, match="model=None: expected a path"):
        Predictor(None)  # type: ignore[arg-type]
    for given in (None, 5, [None], b"pictures", {"a": 1}):
        with pytest.raises(InputError, match="source .*: expected a folder, a pattern"):
            find_source(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="output None: expected a folder"):
        Folder(None)  # type: ignore[arg-type]
