"""The example of docs/training.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from tests.training import models

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training.md"


def test_the_example_runs(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    made = models.classifier()
    for where in (made.description.input[0], made.description.trainingInput[0]):
        where.name = "image"
    models.network_of(made).layers[0].input[0] = "image"
    models.written(made, tmp_path, "Classifier")
    random = np.random.default_rng(0)
    collected = [
        (random.standard_normal((2, 9, 9)).astype(np.float32), name) for name in ("cat", "owl")
    ]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VKNN_DEVICE", "numpy")
    exec(code, {"collected": collected, "picture": collected[0][0]})
    assert (tmp_path / "Learned.mlmodel").stat().st_size > 1000
    assert "epoch 10/10" in capsys.readouterr().out
