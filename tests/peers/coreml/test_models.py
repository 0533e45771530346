"""Real trained models on real inputs, against an independent computation in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.graph import DType
from vknn.session import Session

MODELS = (
    "BlazeFaceScaled", "TinyDrawingEmbedding", "UpdatableMNIST", "house_trainable_updatable",
    "mnistCNN", "mnistCNN_fp16", "mnistCNN_q4lut", "mnistCNN_q8lin", "pose_hourglass",
)  # fmt: skip
#: Of the outputs' range.
TOLERANCE = 1e-4
#: Cases of one file on the device.
MOST = 10


def pixels(array: np.ndarray) -> np.ndarray:
    """Channels as they were recorded -> an image as a user gives it."""
    assert array.min() >= 0
    assert array.max() <= 255
    image = np.squeeze(array.astype(np.uint8))
    return image if image.ndim == 2 else image.transpose(1, 2, 0)


def cases(session: Session, data: Any) -> list[dict[str, np.ndarray]]:
    """The inputs of each case; files hold one, or several along a leading axis."""
    found: list[dict[str, np.ndarray]] = []
    for spec in session.inputs:
        array = data[f"in_{spec.name}"]
        image = spec.dtype == DType.UINT8
        rank = 3 if image else len(spec.shape or ())
        rows = list(array) if array.ndim != rank or array.shape == (127,) else [array]
        given = [pixels(row) if image else np.atleast_1d(row) for row in rows]
        found = found or [{} for _ in given]
        for case, row in zip(found, given, strict=True):
            case[spec.name] = row
    return found


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, backend: str, shared: Path) -> None:
    path = shared / "models" / "coreml" / f"{name}.mlmodel"
    if not path.exists():
        pytest.skip(f"no {path.name} in ../shared/models/coreml")
    data = np.load(path.with_name(f"{name}.expected.npz"), allow_pickle=True)
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device) as session:
        runs = cases(session, data)[: MOST if backend == "vulkan" else None]
        for number, feeds in enumerate(runs):
            made = session.run(feeds)
            if backend == "vulkan":
                assert set(session.placement.values()) == {"vulkan"}
            for key in (k for k in data.files if k.startswith("out_")):
                wanted = data[key] if len(runs) == 1 else data[key][number]
                _compare(made[key[4:]], wanted)
            if "classLabel" in made:  # the pictures are the digits 0 to 9
                assert int(made["classLabel"]) == number


def _compare(found: Any, wanted: np.ndarray) -> None:
    if isinstance(found, dict):
        assert all(isinstance(score, float) for score in found.values())
        found = np.array(list(found.values()), np.float32)
    else:
        assert found.dtype == np.float32
    assert np.squeeze(found).shape == np.squeeze(wanted).shape
    reach = float(np.abs(wanted).max())
    found, wanted = np.squeeze(found), np.squeeze(wanted)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * reach)


def test_the_face_is_found(shared: Path) -> None:
    """Session with a picture from a file, as a user would do it."""
    image = pytest.importorskip("PIL.Image")
    path = shared / "models" / "coreml" / "BlazeFaceScaled.mlmodel"
    photo = shared / "images" / "face.jpg"
    if not path.exists() or not photo.exists():
        pytest.skip("no BlazeFaceScaled.mlmodel and face.jpg in ../shared")
    with Session(path, device="numpy") as session:
        made = session.run({"image": image.open(photo).resize((128, 128))})
    assert made["1011"].max() > 0.9
