"""Layers that normalise against ncnn, in all ranks."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image, whole_net
from tests.peers.ncnn.test_reduction import side_by_side

from vknn import Session
from vknn.errors import VknnError

SHAPES = [(12,), (8, 23), (6, 5, 4), (8, 3, 3), (12, 6, 5, 4), (2, 2, 6, 3)]
LARGE = (8, 67, 61)


@pytest.mark.parametrize("shape", [*SHAPES, LARGE], ids=str)
def test_group_norm(shape: tuple[int, ...], backend: str) -> None:
    lines = [
        f"GroupNorm 0={group} 1={shape[0]} 2=0.01 3={affine}"
        for group in range(1, shape[0] + 1)
        if shape[0] % group == 0 and shape != (group,)  # a group of one is nothing but rounding
        for affine in (0, 1)
    ]
    side_by_side([*lines, f"GroupNorm 1={shape[0]}"], image(*shape), backend)


@pytest.mark.parametrize("shape", [(13,), (9, 23), (11, 5, 4), (12, 6, 5, 4)], ids=str)
def test_group_norm_of_the_first_channels(shape: tuple[int, ...], backend: str) -> None:
    params = ["1=8 0=2", "1=8 0=4 3=0", "1=6", "1=7"]
    side_by_side([f"GroupNorm {p} 2=0.01" for p in params], image(*shape), backend)


@pytest.mark.parametrize("shape", [*SHAPES, LARGE], ids=str)
def test_instance_norm(shape: tuple[int, ...], backend: str) -> None:
    channels = shape[0] if len(shape) > 2 else 1
    lines = [f"InstanceNorm 0={channels}", "InstanceNorm 1=0.01 2=0", "InstanceNorm 0=99 2=0"]
    side_by_side(lines, image(*shape) + 3, backend)


@pytest.mark.parametrize("shape", [*SHAPES, LARGE], ids=str)
def test_mvn(shape: tuple[int, ...], backend: str) -> None:
    flags = itertools.product((0, 1), (0, 1))
    lines = [f"MVN 0={variance} 1={across} 2=0.01" for variance, across in flags]
    side_by_side(["MVN", *lines], image(*shape) + 3, backend)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("shape", [*SHAPES, LARGE], ids=str)
def test_normalize(shape: tuple[int, ...], mode: int, backend: str) -> None:
    channels = shape[0] if len(shape) > 2 else 1
    lines = [
        f"Normalize 0={space} 1={shared} 2=0.05 3={1 if shared else channels} 4={across} 9={mode}"
        for space, across, shared in itertools.product((0, 1), (0, 1), (0, 1))
    ]
    side_by_side([*lines, f"Normalize 3={channels}"], image(*shape) * 0.2, backend)


@pytest.mark.parametrize("kind", ["LayerNorm", "RMSNorm"])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 1, 7), (2, 61, 67)], ids=str)
def test_over_inner_axes(shape: tuple[int, ...], kind: str, backend: str) -> None:
    sizes = {math.prod(shape[-count:]) for count in range(1, max(2, len(shape)))}
    lines = [f"{kind} 0={n} 1=0.01 2={affine}" for n in sorted(sizes) for affine in (0, 1)]
    side_by_side([*lines, f"{kind} 2=0", f"{kind} 0=5 2=0"], image(*shape), backend)


@pytest.mark.parametrize("shape", [(13,), (6, 9), (9, 10, 7), (7, 3, 5, 4)], ids=str)
def test_lrn(shape: tuple[int, ...], backend: str) -> None:
    lines = [
        f"LRN 0={region} 1={size} 2=0.7 3=0.6 4=1.3" for region in (0, 1) for size in (1, 3, 4, 5)
    ]
    side_by_side([*lines, "LRN"], image(*shape), backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm(shape: tuple[int, ...], backend: str) -> None:
    lines = [f"BatchNorm 0={shape[0]} 1={eps}" for eps in (0.0, 0.001, 0.1)]
    side_by_side(lines, image(*shape), backend)


@pytest.mark.parametrize("shape", [(127,), (31, 28), (13, 9, 7), (6, 5, 4, 8)], ids=str)
def test_softmax(shape: tuple[int, ...], backend: str) -> None:
    axes = range(-len(shape), len(shape))
    side_by_side(["Softmax", *(f"Softmax 0={a} 1=1" for a in axes)], image(*shape) * 3, backend)


@pytest.mark.parametrize(
    "line, message",
    [
        ("GroupNorm 0=4 1=6", "6 channels"),
        ("GroupNorm 1=7", "7 channels"),
        ("GroupNorm 1=0 3=0", "0 channels"),
        ("GroupNorm 0=0 1=6", "group 0"),
        ("InstanceNorm 0=5", "5 channels"),
        ("Normalize 3=5", "scale"),
        ("Normalize 3=1 9=3", "eps_mode 3"),
        ("LayerNorm 0=7", "affine_size 7"),
        ("RMSNorm 0=0", "affine_size 0"),
        ("LRN 0=2", "region_type 2"),
    ],
)
def test_what_makes_no_sense(line: str, message: str, tmp_path: Path) -> None:
    kind, *params = line.split()
    net = whole_net("Input in 0 1 x", f"{kind} layer 1 1 x y {' '.join(params)}")
    (tmp_path / "net.param").write_text(net)
    (tmp_path / "net.bin").write_bytes(np.ones(64, np.float32).tobytes())
    with pytest.raises(VknnError, match=message) as caught:
        Session(tmp_path / "net.param", device="numpy").run({"x": image(6, 4, 5)})
    assert kind in str(caught.value)


@pytest.mark.parametrize("line", ["LayerNorm 0=31", "RMSNorm 0=31", "InstanceNorm 0=31"])
@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 4, 5), (2, 2, 3, 4)])
def test_more_factors_than_needed(line: str, shape: tuple[int, ...], backend: str) -> None:
    check(line, image(*shape), backend=backend)


def test_far_from_zero(backend: str) -> None:
    """The variance of channels whose mean is large."""
    x = image(4, 9, 12) + 100
    check("InstanceNorm 1=0.001 2=0", x, backend=backend)
    check("GroupNorm 0=2 1=4 2=0.001 3=0", x, backend=backend)
