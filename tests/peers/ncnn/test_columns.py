"""Unfold and Fold against ncnn."""

from __future__ import annotations

import pytest
from tests.peers.ncnn.peer import check, image

WINDOWS = [
    "1=3",
    "1=4 11=2 13=2 4=2 14=2 18=-0.5",
    "1=3 11=2 2=2 12=1 4=4 14=2 18=2.0",
    "1=3 4=-233 18=-0.5",
    "1=4 11=2 13=2 4=-234",
    "1=3 11=2 2=2 12=1 4=-233 14=-233 18=1.0",
    "1=2 3=3 4=1 15=2 14=0 16=1",
    "1=9 11=8",
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("channels", [1, 3, 8])
def test_unfold(window: str, channels: int, backend: str) -> None:
    check(f"Unfold {window}", image(channels, 8, 9), backend=backend)


@pytest.mark.parametrize(
    ("window", "shape"),
    [
        ("1=3 20=22 21=22", (18, 400)),
        ("1=4 11=2 3=1 13=2 4=2 14=2 20=18 21=17", (96, 190)),
        ("1=3 11=2 2=2 12=1 4=4 14=2 20=11 21=5", (36, 120)),
        ("1=2 3=3 20=7", (4, 4)),
        ("1=2 4=1 15=0 14=2 16=1 20=4 21=3", (8, 20)),
    ],
)
def test_fold(window: str, shape: tuple[int, int], backend: str) -> None:
    check(f"Fold {window}", image(*shape), backend=backend)


def test_unfold_of_fewer_axes(backend: str) -> None:
    check("Unfold 1=2 11=1", image(4, 5), backend=backend)
    check("Unfold 1=3 11=1 4=1 18=0.5", image(7), backend=backend)  # no height to be padded
