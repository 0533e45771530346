"""DeformableConv2D against ncnn, over the parameters of ncnn's own tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image, one_layer, run_vknn

from vknn import formats
from vknn.errors import ModelFormatError, ShapeError

#: Kernel, dilation, stride, pad, inputs, outputs, bias.
CASES = [
    (1, 1, 1, 0, 1, 1, 1),
    (1, 1, 2, 0, 4, 13, 0),
    (2, 1, 1, 1, 13, 4, 1),
    (2, 1, 2, 0, 4, 8, 0),
    (3, 1, 1, 1, 8, 13, 1),
    (3, 1, 2, 1, 16, 16, 0),
    (3, 2, 1, 1, 3, 24, 1),
    (4, 1, 2, 1, 24, 12, 1),
    (5, 1, 2, 2, 12, 3, 0),
    (4, 2, 2, 2, 26, 32, 1),
]
ACTIVATIONS = ["", "9=1", "9=2 -23310=1,-0.3", "9=4", "9=5"]


def blobs(case: tuple[int, ...], h: int, w: int, mask: bool, reach: float) -> list[np.ndarray]:
    kernel, dilation, stride, pad, inputs = case[:5]
    out = [(n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n in (h, w)]
    taps = kernel * kernel
    found = [image(inputs, h, w), image(2 * taps, *out, seed=1, scale=reach)]
    return [*found, image(taps, *out, seed=2)] if mask else found


def line(case: tuple[int, ...]) -> str:
    kernel, dilation, stride, pad, inputs, outputs, bias = case
    count = kernel * kernel * inputs * outputs
    window = f"1={kernel} 2={dilation} 3={stride} 4={pad}"
    return f"DeformableConv2D 0={outputs} {window} 5={bias} 6={count}"


@pytest.mark.parametrize("mask", [False, True], ids=["plain", "masked"])
def test_deformable(mask: bool, backend: str) -> None:
    for number, case in enumerate(CASES[number] for number in range(mask, len(CASES), 2)):
        text = f"{line(case)} {ACTIVATIONS[number % 5]}"
        check(text, *blobs(case, 7, 9, mask, reach=1.0), backend=backend)


def test_uneven(backend: str) -> None:
    text = "DeformableConv2D 0=3 1=2 11=3 2=1 12=2 3=2 13=1 4=1 15=0 14=2 16=1 5=1 6=72"
    check(text, image(4, 5, 6), image(12, 4, 3, seed=1), image(6, 4, 3, seed=2), backend=backend)


def test_far_offsets(backend: str) -> None:
    case = (3, 1, 1, 1, 5, 4, 1)
    check(line(case), *blobs(case, 6, 5, True, reach=5.0), backend=backend)
    x, offset = blobs(case, 6, 5, False, reach=3.0)
    check(line(case), x, np.rint(offset), backend=backend)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.with_suffix(".bin").write_bytes(np.zeros(200, np.float32).tobytes())
    path.write_text(one_layer("DeformableConv2D 0=1 1=3 6=9 4=-233", 2))
    with pytest.raises(ModelFormatError, match="no SAME padding"):
        formats.load(path)
    path.write_text(one_layer("DeformableConv2D 0=1 1=3 6=9 4=1", 3))
    x, offset, mask = blobs((3, 1, 1, 1, 1), 4, 5, True, reach=1.0)
    with pytest.raises(ShapeError, match="offsets have the shape"):
        run_vknn(path, {"x0": x, "x1": offset[:16], "x2": mask}, "numpy")
    with pytest.raises(ShapeError, match="mask have the shape"):
        run_vknn(path, {"x0": x, "x1": offset, "x2": mask[:, 1:]}, "numpy")
