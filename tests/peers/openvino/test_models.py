"""Real trained models on real inputs, against what OpenVINO gave for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.session import Session

MODELS = (
    "RFB-320.v6-fp32", "RFB-320.v7-fp16", "face-detection-retail-0004.v4-fp16",
    "landmarks-regression-retail-0009.v4-fp32", "pose-mobilenet_v2_0.5_224.v5-fp16",
    "pose-mobilenet_v2_0.5_224.v5-fp32", "squeezenet1.1.v3-fp16",
    "vehicle-attributes-recognition-barrier-0039.v4-fp32",
)  # fmt: skip
#: Models without a recorded result: both backends have to agree.
ALONE = (
    "anomaly-mobilenetv2.v4-fp16", "face-detection-retail-0004.v3-int8stats",
    "gru-bidirectional.v6-fp16",
)  # fmt: skip


#: The result of this one moves by as much when its input moves by a rounding error: no two ways of
#: adding up give the same.
LOOSE = {"pose-mobilenet_v2_0.5_224.v5-fp32": 1e-3}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, backend: str, shared: Path) -> None:
    folder = shared / "models" / "openvino"
    device = "numpy" if backend == "numpy" else shared_device()
    with (
        np.load(folder / f"{name}.expected.npz") as data,
        Session(folder / f"{name}.xml", device=device) as session,
    ):
        feeds = {s.name: data[f"in_{s.name}"] for s in session.inputs}
        found = session.run(feeds)
        assert {f"out_{output}" for output in found} == {n for n in data if n.startswith("out_")}
        for output, array in found.items():
            expected = data[f"out_{output}"]
            assert array.shape == expected.shape
            reach = max(float(np.abs(expected).max()), 1e-6)
            assert np.abs(array - expected).max() <= LOOSE.get(name, 1e-4) * reach


@pytest.mark.device
@pytest.mark.parametrize("name", ALONE)
def test_without_a_record(name: str, shared: Path) -> None:
    path = shared / "models" / "openvino" / f"{name}.xml"
    results = []
    for device in ("numpy", shared_device()):
        with Session(path, device=device) as session:
            results.append(session.run({s.name: _made_up(s.shape) for s in session.inputs}))
    for output, array in results[0].items():
        assert np.isfinite(array).all()
        reach = max(float(np.abs(array).max()), 1e-6)
        assert np.abs(results[1][output] - array).max() <= 1e-4 * reach


def _made_up(shape: tuple[int | None, ...] | None) -> np.ndarray:
    """Pixels for images, small numbers for others."""
    assert shape is not None
    most = 255 if len(shape) == 4 else 1
    return np.random.default_rng(1).uniform(0, most, [d or 1 for d in shape]).astype(np.float32)
