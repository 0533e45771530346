"""DeformConv on the device: every kernel, layout and access mode against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import ACCESS_MODES, check_op

from vknn.lowering.kernels.convolution import deform_conv
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def op(stride=1, pad=0, dilation=1, group=1, parts=1) -> DeformConv:
    return DeformConv((stride,) * 2, (pad,) * 4, (dilation,) * 2, group, parts)


CASES = {
    "3x3": (op(pad=1), (1, 5, 6, 7), (9, 5, 3, 3)),
    "stride 2": (op(2, 1), (2, 3, 7, 9), (5, 3, 3, 3)),
    "uneven": (DeformConv((2, 1), (0, 1, 2, 1), (1, 2)), (1, 4, 5, 7), (3, 4, 3, 2)),
    "1x1": (op(), (1, 37, 3, 5), (3, 37, 1, 1)),
    "groups": (op(pad=1, group=3), (1, 9, 5, 4), (6, 3, 3, 3)),
    "offset groups": (op(pad=1, parts=2), (2, 24, 5, 4), (5, 24, 2, 2)),
    "mixed offset groups": (op(pad=1, group=2, parts=3), (1, 6, 5, 4), (4, 3, 3, 3)),
    "clamped": (
        DeformConv((1, 1), (1,) * 4, (1, 1), clamped=True), (1, 6, 5, 4), (4, 6, 3, 3),
    ),
}  # fmt: skip


def inputs(name: str, *, mask: bool = True) -> list[np.ndarray | None]:
    base, x, w = CASES[name]
    shape = [
        (s + p + q - (k - 1) * d - 1) // t + 1
        for s, k, p, q, d, t in zip(
            x[2:], w[2:], base.pads[:2], base.pads[2:], base.dilations, base.strides, strict=True
        )
    ]
    taps = base.offset_group * w[2] * w[3]
    offset = 2 * random(x[0], 2 * taps, *shape)
    offset[:, ::3] = np.rint(offset[:, ::3])  # places on the grid, and on its border
    masks = random(x[0], taps, *shape) if mask else None
    return [random(*x), random(*w), offset, random(w[0]), masks]


@pytest.mark.parametrize("name", CASES)
def test_deform_conv(name: str) -> None:
    access = ACCESS_MODES if name in ("3x3", "mixed offset groups") else ("texel",)
    check_op(CASES[name][0], *inputs(name), constants=(1, 3), access=access)


@pytest.mark.parametrize("constants", [(), (1,), (1, 2, 3, 4)], ids=["none", "weight", "all"])
def test_run_time_weights(constants: tuple[int, ...]) -> None:
    check_op(CASES["groups"][0], *inputs("groups"), constants=constants, access=("image",))


@pytest.mark.parametrize("name", ["3x3", "offset groups"])
def test_without_mask_and_bias(name: str) -> None:
    x, w, offset, _, _ = inputs(name, mask=False)
    check_op(CASES[name][0], x, w, offset, constants=(1,), access=("storage",))


def test_as_on_a_gpu() -> None:
    check_op(
        CASES["stride 2"][0], *inputs("stride 2"), constants=(1, 3), access=("storage",),
        kind="discrete",
    )  # fmt: skip


def test_with_an_epilogue() -> None:
    base, arrays = CASES["stride 2"][0], inputs("stride 2")
    (y,) = base.reference(*arrays)
    full = Fused(base, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0), FusedStep(Relu(), None)))
    check_op(full, *arrays, random(*y.shape), constants=(1, 3), access=("image",))


def test_images_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples for a few pixels at a time, each with its part of the epilogue."""
    monkeypatch.setattr(deform_conv, "_MOST_SAMPLES", 16 * 9 * 7)
    base, arrays = CASES["stride 2"][0], inputs("stride 2")
    (y,) = base.reference(*arrays)
    check_op(
        Fused(base, (FusedStep(Add(), 0),)), *arrays, random(*y.shape), constants=(1, 3),
        access=("texel",),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["3x3", "mixed offset groups"])
def test_in_fp16(name: str) -> None:
    """On offsets that float16 holds exactly."""
    x, w, offset, bias, mask = inputs(name)
    assert offset is not None
    offset = np.rint(8 * offset) / 8
    check_op(
        CASES[name][0], x, w, offset.astype(np.float32), bias, mask, constants=(1, 3),
        access=("storage",), precision="fp16",
    )  # fmt: skip


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_mask_that_is_no_number(special: float) -> None:
    """It multiplies the sample, be that outside (0) or between pixels of both signs."""
    x, w, offset = random(1, 1, 3, 5), random(3, 1, 1, 1), random(1, 2, 3, 5)
    offset[..., 0] = 100.0
    mask = np.full((1, 1, 3, 5), special, np.float32)
    expected = op().reference(x, w, offset, None, mask)[0]
    assert np.isnan(expected[..., 0]).all()
    assert np.isnan(special) or np.isinf(expected[..., 1:]).sum() > 9
    check_op(op(), x, w, offset, None, mask, constants=(1,), access=("storage",))
