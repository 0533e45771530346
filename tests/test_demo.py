"""The demo's network on its held-out samples: on the device, on NumPy, and in ncnn."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

import vknn

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "tools" / "demo_model" / "digits.param"


@functools.cache
def held_out() -> tuple[np.ndarray, np.ndarray]:
    """Images (1, 8, 8) from 0 to 1, and labels."""
    samples = np.load(MODEL.with_name("held_out.npz"))
    return samples["images"][:, None].astype(np.float32) / 16, samples["labels"]


def probabilities(device: str, count: int) -> np.ndarray:
    with vknn.Session(MODEL, device=device) as session:
        runs = [session.run({"image": image}) for image in held_out()[0][:count]]
    return np.stack([run["probabilities"] for run in runs])


@pytest.mark.parametrize("device", [pytest.param("vulkan", marks=pytest.mark.device), "numpy"])
def test_held_out_accuracy(device: str) -> None:
    images, labels = held_out()
    right = probabilities(device, len(images)).argmax(axis=1) == labels
    assert right.mean() > 0.97


@pytest.mark.device
def test_backends_agree() -> None:
    np.testing.assert_allclose(
        probabilities("vulkan", 40), probabilities("numpy", 40), rtol=0, atol=1e-5
    )


def test_ncnn_reads_the_files_and_agrees() -> None:
    ncnn = pytest.importorskip("ncnn")
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.use_fp16_storage = net.opt.use_fp16_packed = net.opt.use_fp16_arithmetic = False
    assert net.load_param(str(MODEL)) == 0
    assert net.load_model(str(MODEL.with_suffix(".bin"))) == 0
    results = []
    for image in held_out()[0][:10]:
        extractor = net.create_extractor()
        extractor.input("image", ncnn.Mat(np.ascontiguousarray(image)))
        results.append(np.array(extractor.extract("probabilities")[1]))
    np.testing.assert_allclose(np.stack(results), probabilities("numpy", 10), rtol=0, atol=1e-5)


def test_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in MODEL.parent.iterdir()) < 1 << 20


def test_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    show_demo = pytest.importorskip("show_demo")
    picture = show_demo.picture(np.array([[0, 4, 8], [12, 16, 0]]))
    assert picture == ["  ░░▒▒", "▓▓██  "]
    sys.modules.pop("show_demo")
