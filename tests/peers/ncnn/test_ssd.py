"""PriorBox, DetectionOutput and Proposal against ncnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, run_vknn, whole_net

SSD_PRIORS = [
    "-23300=1,105.0 -23301=1,150.0 -23302=2,2.0,3.0 9=-233 10=-233",
    "-23300=2,10.0,20.0 -23302=1,2.0 7=0 8=1 9=-233 10=-233 13=0.5",
    "-23300=2,10.0,20.0 -23301=2,15.0,30.0 9=300 10=-233 11=8.0 12=16.0 13=0.5 3=0.2 6=0.4",
    "-23300=1,0.15 -23302=1,2.0 7=0 9=-233 10=-233 11=-233.0 12=-233.0 13=0.5 14=0.0 15=0.0",
    "-23300=1,9.0 -23302=2,2.0,0.5 9=-233 10=-233 13=0.5 14=1 15=1",
]


@pytest.mark.parametrize("parameters", SSD_PRIORS)
def test_priors(parameters: str, backend: str) -> None:
    check(f"PriorBox {parameters}", image(1, 7, 5), image(3, 38, 29), backend=backend)


def test_priors_of_a_given_image(backend: str) -> None:
    line = "PriorBox -23300=1,9.0 -23302=1,2.0 9=90 10=70"
    check(line, image(2, 3, 4), backend=backend)
    check(f"{line} 8=1 11=9.5", image(3, 4), image(2, 2, 2), backend=backend)


@pytest.mark.parametrize("parameters", ["", "8=1", "11=0.3 12=0.1"])
def test_priors_as_mxnet_has_them(parameters: str, backend: str) -> None:
    sizes = "-23300=2,0.15,0.2121 -23302=5,1.0,2.0,0.5,3.0,0.333333"
    line = f"PriorBox {sizes} 7=0 9=-233 10=-233 13=0.5 {parameters}"
    check(line, image(1, 6, 4), backend=backend)
    line = f"PriorBox -23300=1,0.3 -23302=1,1.0 9=-233 10=-233 {parameters}"
    check(line, image(1, 3, 5), backend=backend)


def scene(boxes: int, classes: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Locations, confidences that add up to 1 for each box, priors and variances."""
    random = np.random.default_rng(seed)
    location = random.standard_normal(4 * boxes)
    confidence = random.dirichlet(np.full(classes, 0.5), boxes)
    low = random.uniform(0, 0.7, (boxes, 2))
    corners = np.hstack([low, low + random.uniform(0.05, 0.4, (boxes, 2))]).reshape(-1)
    priors = np.stack([corners, np.tile((0.1, 0.1, 0.2, 0.2), boxes)])
    return tuple(a.astype(np.float32) for a in (location, confidence, priors))


SETTINGS = [
    "1=0.45 4=0.2",
    "1=0.45 2=7 3=9 4=0.1",
    "1=0.3 2=400 3=200 4=0.01",
    "4=0.3",
    "1=1.0 4=0.05",
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("boxes", "classes"), [(20, 4), (67, 3), (50, 21)])
def test_detections(boxes: int, classes: int, settings: str, backend: str) -> None:
    location, confidence, priors = scene(boxes, classes)
    line = f"DetectionOutput 0={classes} {settings}"
    check(line, location, confidence.reshape(-1), priors, backend=backend)
    check(line, location.reshape(-1, 4), confidence, priors, backend=backend)


@pytest.mark.parametrize("settings", SETTINGS)
def test_detections_as_mxnet_has_them(settings: str, backend: str) -> None:
    location, confidence, priors = scene(40, 5, seed=1)
    inputs = location, confidence.T.copy(), priors[0].reshape(-1, 4)
    check(f"DetectionOutput 0=-233 {settings} 5=0.2 7=0.3", *inputs, backend=backend)


def proposals(height: int, width: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    scores = image(18, height, width, seed=seed)
    info = np.array([16 * height + 5, 16 * width, 1.2], np.float32)
    return scores, image(36, height, width, seed=seed + 1, scale=0.3), info


@pytest.mark.parametrize(
    "parameters",
    ["", "2=50 3=20", "0=8 1=8 4=0.5 5=4", "2=0 3=1000 4=0.3", "2=30 4=1.0", "2=-1 1=15 5=30"],
)
def test_proposals(parameters: str, backend: str) -> None:
    line = f"Proposal {parameters}"
    check(line, *proposals(5, 7), backend=backend, tops=2)
    check(line, *proposals(9, 4, seed=5), backend=backend)


def test_a_region_from_proposals(backend: str) -> None:
    """The first proposal is pooled: behind a size that depends on data."""
    scores, deltas, info = proposals(5, 7)
    text = whole_net(
        "Input a 0 1 scores",
        "Input b 0 1 deltas",
        "Input c 0 1 info",
        "Input d 0 1 x",
        "Proposal p 3 1 scores deltas info rois",
        "ROIAlign r 2 1 x rois y 0=3 1=4 2=0.0625",
    )
    feeds = {"scores": scores, "deltas": deltas, "info": info, "x": image(5, 5, 7)}
    compare_with_ncnn(text, None, feeds, (backend,))


NOTHING = {
    "DetectionOutput s 3 1 x0 x1 x2 y 0=3 4=1.5": (*scene(9, 3),),
    "Proposal s 3 1 x0 x1 x2 y 5=1000": proposals(2, 3),
    "YoloDetectionOutput s 1 1 x0 y 0=3 1=2 2=2.0 -23304=4,1.0,1.0,2.0,2.0": (image(16, 3, 4),),
}


@pytest.mark.parametrize("line", NOTHING, ids=lambda line: line.split()[0])
def test_nothing_found(line: str, backend: str, tmp_path: Path) -> None:
    """ncnn fails or gives its input; here there are no rows."""
    inputs = NOTHING[line]
    path = tmp_path / "net.param"
    path.write_text(whole_net(*(f"Input i{n} 0 1 x{n}" for n in range(len(inputs))), line))
    path.with_suffix(".bin").write_bytes(b"")
    y = run_vknn(path, {f"x{n}": x for n, x in enumerate(inputs)}, backend)["y"]
    assert y.shape == ((0, 1, 4) if line.startswith("Proposal") else (0, 6))
