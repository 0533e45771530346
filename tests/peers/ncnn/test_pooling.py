"""Pooling against ncnn."""

from __future__ import annotations

import pytest
from tests.peers.ncnn.peer import check, image

KINDS = ["0=0", "0=1", "0=1 6=1"]
WINDOWS = [
    ("1=2 2=2", (3, 7, 9)),
    ("1=3 2=2", (3, 8, 10)),
    ("1=3 2=2 3=1", (3, 8, 9)),
    ("1=3 11=2 2=3 12=1 3=1 14=2 13=0 15=1", (3, 9, 8)),
    ("1=2 2=3", (3, 9, 8)),
    ("1=3 2=2 3=1 5=1", (3, 8, 9)),
    ("1=2 2=2 5=1", (3, 7, 9)),
    ("1=3 2=2 5=2", (3, 7, 8)),
    ("1=4 2=2 5=2", (3, 7, 8)),
    ("1=4 2=2 5=3", (3, 7, 8)),
    ("1=3 2=1 5=3", (3, 7, 8)),
    ("1=2 2=2 3=1 5=2", (3, 7, 9)),
    ("1=7", (4, 7, 7)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("window", "shape"), WINDOWS)
def test_windows(kind: str, window: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"Pooling {kind} {window}", image(*shape), backend=backend)


@pytest.mark.parametrize("kind", ["0=0", "0=1"])
def test_global(kind: str, backend: str) -> None:
    check(f"Pooling {kind} 4=1", image(5, 7, 3), backend=backend)


@pytest.mark.parametrize("kind", ["0=0", "0=1"])
@pytest.mark.parametrize("size", ["8=3", "8=4 18=2", "8=-233 18=3", "8=-233", "8=1", "8=11 18=9"])
def test_adaptive(kind: str, size: str, backend: str) -> None:
    check(f"Pooling {kind} 7=1 {size}", image(5, 7, 10), backend=backend)


def test_windows_wholly_in_padding(backend: str) -> None:
    """The ceil tail may lie outside altogether: the lowest float, or not a number."""
    for kind in KINDS:
        check(f"Pooling {kind} 1=1 2=3 3=0 14=2 13=0 15=2", image(2, 5, 5), backend=backend)
