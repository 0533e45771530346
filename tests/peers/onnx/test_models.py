"""Trained models against onnxruntime's answers (shared/models/onnx)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device

from vknn.session import Session

#: Largest difference, of the output's range, by model: text detection is a sigmoid of large sums
#: that float32 does not settle better (with sums in float64 it is as far from onnxruntime), half
#: precision rounds, quantized networks may be a few steps off, and pictures of bytes by one.
TOLERANCES = {
    "bodypix_mnv1_050_s16": 1e-4, "magika_standard_v3_3": 1e-4, "mnist_cntk": 1e-4,
    "openseeface_lm0": 1e-4, "ppocr_det_v3": 5e-4, "ppocr_rec_en": 1e-4, "rfb320": 1e-4,
    "rfb320_qdq": 2.5e-2, "selfie_segmentation": 1e-4, "silero_vad": 1e-4, "squeezenet_fp16": 5e-3,
    "superres_pre_post": 4.5e-3, "style_mosaic": 1e-4, "yolox_nano": 1e-4,
}  # fmt: skip
#: Minutes with NumPy.
SLOW = ("style_mosaic", "yolox_nano", "superres_pre_post")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in TOLERANCES]
)
def test_model(name: str, backend: str, shared: Path) -> None:
    folder = shared / "models" / "onnx"
    if not folder.exists():
        pytest.skip("shared/models/onnx is not there")
    device = "numpy" if backend == "numpy" else shared_device()
    with np.load(folder / f"{name}.expected.npz") as stored:
        arrays = dict(stored)
    runs = sorted({k.split("_")[0] + "_" for k in arrays if k[0] == "r" and k[1].isdigit()})
    with Session(folder / f"{name}.onnx", device=device) as session:
        for run in runs or [""]:
            feeds = {}
            for key in (k for k in arrays if k.startswith(f"{run}in_")):
                own = key.removeprefix(f"{run}in_")
                whole = arrays[key]
                bytes_ = own.endswith("_u8")
                feeds[own.removesuffix("_u8")] = whole.astype(np.float32) if bytes_ else whole
            results = session.run(feeds)
            for key in (k for k in arrays if k.startswith(f"{run}out")):
                kind, _, own = key.removeprefix(run).partition("_")
                found, wanted = results[own], arrays[key]
                found = found[..., ::6, ::6] if kind == "out6" else found
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
                far = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
                span = np.ptp(wanted.astype(np.float64)) if wanted.size > 1 else abs(wanted.item())
                assert far <= TOLERANCES[name] * span, f"{own}: {far:.3g} of {span:.3g}"
