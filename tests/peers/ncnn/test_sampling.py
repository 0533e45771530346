"""GridSample and Interp against ncnn."""

from __future__ import annotations

import pytest
from tests.peers.ncnn.peer import check, image

MODES = [
    f"0={mode} 1={pad} 2={align}" for mode in (1, 2, 3) for pad in (1, 2, 3) for align in (0, 1)
]


@pytest.mark.parametrize("parameters", MODES)
def test_images(parameters: str, backend: str) -> None:
    line = f"GridSample {parameters}"
    check(line, image(1, 7, 3), image(13, 11, 2, seed=1), backend=backend)
    check(f"{line} 3=1", image(6, 5, 8), image(2, 5, 7, seed=1), backend=backend)


@pytest.mark.parametrize("parameters", [m for m in MODES if "0=3" not in m])
def test_volumes(parameters: str, backend: str) -> None:
    line = f"GridSample {parameters}"
    check(line, image(5, 4, 7, 5), image(3, 4, 5, 3, seed=1), backend=backend)
    check(f"{line} 3=1", image(8, 3, 2, 4), image(3, 2, 4, 3, seed=1), backend=backend)


@pytest.mark.parametrize("parameters", MODES)
def test_places_far_outside(parameters: str, backend: str) -> None:
    """Rows of eight: what is left over ncnn computes by another rule."""
    line = f"GridSample {parameters}"
    check(line, image(3, 5, 4), image(3, 8, 2, seed=1, scale=6.0), backend=backend)
    check(line, image(3, 1, 1), image(3, 8, 2, seed=1), backend=backend)


KINDS = [f"0={mode} 6={align}" for mode in (1, 2, 3) for align in (0, 1)]
SIZES = ["1=4.0 2=0.5", "1=1.2 2=1.2", "3=10 4=12"]
MORE = ["1=2.0 2=2.0", "1=0.8 2=0.8", "3=2 4=2", "1=2.0 2=3.0 3=7", "1=1.2 2=0.7 4=9"]
SIZES += [pytest.param(size, marks=pytest.mark.slow) for size in MORE]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_resized_images(kind: str, size: str, backend: str) -> None:
    check(f"Interp {kind} {size}", image(3, 9, 7), backend=backend)
    # An axis that keeps its size, and one of few channels.
    check(f"Interp {kind} {size}", image(8, 4, 10), backend=backend)


@pytest.mark.parametrize("kind", KINDS)
def test_resized_rows_and_vectors(kind: str, backend: str) -> None:
    for size in ("2=2.0", "2=0.5", "2=1.2", "4=12", "4=2"):
        check(f"Interp {kind} 3=0 {size}", image(5, 15), backend=backend)
    check(f"Interp {kind} 1=0.1 2=2.0", image(5, 7), backend=backend)  # rows have no height
    for size in ("1=2.0 2=3.0", "3=5 4=6"):
        check(f"Interp {kind} {size}", image(9), backend=backend)


EXPRESSIONS = [
    *("0w,0h", "0w,5", "*(0w,2),+(0h,3)", "*(0w,0.5),/(0h,3)", "//(0w,3)"),
    "square(neg(abs(max(min(//(*(-(+(0w,1),-1),4),4),100),-4)))),0h",
    "0w,trunc(*(round(-(floor(+(ceil(*(0w,1.2)),0.7)),-0.4)),1.0001))",
]


@pytest.mark.parametrize("kind", ["0=1", "0=2", "0=3"])
def test_sizes_from_elsewhere(kind: str, backend: str) -> None:
    for reference in (image(1, 12, 10), image(12, 10), image(2, 2, 2)):
        check(f"Interp {kind} 5=1", image(6, 7, 9), reference, backend=backend)
    for expression in EXPRESSIONS:
        check(f'Interp {kind} 5=1 9="{expression}"', image(3, 14, 15), backend=backend)
    check(f'Interp {kind} 9="-(0w,5)"', image(13, 22), backend=backend)
    line = f'Interp {kind} 5=1 9="*(1w,0.5),/(1h,3)"'
    check(line, image(4, 15, 14), image(5, 45, 28), backend=backend)
