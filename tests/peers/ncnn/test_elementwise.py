"""Elementwise layers against ncnn, in all ranks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image

SHAPES = [(7,), (5, 7), (3, 5, 7), (3, 2, 5, 7)]

PLAIN = [
    "AbsVal",
    "BNLL",
    "Clip 0=-0.5 1=0.75",
    "Clip 1=0.25",
    "CELU 0=0.5",
    "Dropout",
    "Dropout 0=0.5",
    "ELU",
    "ELU 0=1.5",
    "Erf",
    "Exp",
    "Exp 0=2.0 1=0.5 2=1.0",
    "GELU",
    "GELU 0=1",
    "HardSigmoid",
    "HardSigmoid 0=0.3 1=0.4",
    "HardSwish",
    "HardSwish 0=0.166667 1=0.5",
    "Mish",
    "Power 0=2.0 1=0.5 2=1.0",
    "Power",
    "ReLU",
    "ReLU 0=0.1",
    "SELU",
    "SELU 0=1.5 1=1.2",
    "Shrink",
    "Shrink 0=0.2 1=0.7",
    "Sigmoid",
    "Softplus",
    "Swish",
    "TanH",
    "Threshold",
    "Threshold 0=0.3",
    "Flatten",
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("line", PLAIN)
def test_plain(line: str, shape: tuple[int, ...], backend: str) -> None:
    check(line, image(*shape, scale=2), backend=backend)


@pytest.mark.parametrize("line", ["Log", "Log 0=10.0 1=2.0 2=0.5", "Power 0=0.5 2=0.5"])
def test_of_positive_numbers(line: str, backend: str) -> None:
    check(line, np.abs(image(3, 5, 7)) + 0.1, backend=backend)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("line", ["PReLU 0={n}", "PReLU 0=1", "BatchNorm 0={n} 1=0.001",
    "BatchNorm 0={n}", "Scale 0={n}", "Scale 0={n} 1=1"])  # fmt: skip
def test_per_channel(line: str, shape: tuple[int, ...], backend: str) -> None:
    check(line.format(n=shape[0]), image(*shape), backend=backend)


def test_batch_norm_of_zero_variance(backend: str) -> None:
    var = np.array([0.0, 1.0, 0.0], np.float32)
    check("BatchNorm 0=3", image(3, 5, 7), weights={"var": var}, backend=backend)


@pytest.mark.parametrize("shape", SHAPES)
def test_bias(shape: tuple[int, ...], backend: str) -> None:
    size = shape[0] if len(shape) > 2 else 1
    check(f"Bias 0={size}", image(*shape), backend=backend)


@pytest.mark.parametrize("shape", SHAPES)
def test_scale_from_input(shape: tuple[int, ...], backend: str) -> None:
    for tops in (1, 2):
        scale = image(shape[0], seed=1)
        check("Scale 0=-233", image(*shape), scale, tops=tops, backend=backend)


DOMAINS = {5: "positive", 6: "positive", 8: "positive", 15: "positive", 17: "positive"}
DOMAINS |= {12: "unit", 13: "unit", 26: "unit", 25: "above", 27: "positive", 11: "unit"}


@pytest.mark.parametrize("op", range(28))
def test_unary(op: int, backend: str) -> None:
    x = image(3, 5, 7)
    if op in DOMAINS:
        x = {"positive": np.abs(x) + 0.1, "unit": np.tanh(x), "above": np.abs(x) + 1.0}[DOMAINS[op]]
    check(f"UnaryOp 0={op}", x.astype(np.float32), backend=backend)


def test_round_is_half_to_even(backend: str) -> None:
    x = np.arange(-8, 9, dtype=np.float32) / 2
    check("UnaryOp 0=18", x, backend=backend, tolerance=0)


def operands(op: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Operands of a binary op; powers take positive ones."""
    arrays = [image(*shape, seed=i) for i, shape in enumerate(shapes)]
    return [np.abs(a) + 0.2 for a in arrays] if op in (3, 6, 8, 9) else arrays


@pytest.mark.parametrize("op", range(19))
def test_binary(op: int, backend: str) -> None:
    check(f"BinaryOp 0={op}", *operands(op, (3, 5, 7), (3, 5, 7)), backend=backend)


@pytest.mark.parametrize("op", range(19))
def test_binary_with_scalar(op: int, backend: str) -> None:
    check(f"BinaryOp 0={op} 1=1 2=0.7", *operands(op, (3, 5, 7)), backend=backend)


BROADCASTS = [
    ((7,), (7,)),
    ((1,), (7,)),
    ((5,), (5, 7)),
    ((7,), (5, 7)),
    ((5,), (5, 5)),
    ((3,), (3, 5, 7)),
    ((7,), (3, 5, 7)),
    ((1,), (3, 5, 7)),
    ((3, 5), (3, 5, 7)),
    ((3, 1), (3, 5, 7)),
    ((1, 5), (3, 5, 7)),
    ((3, 1, 1), (3, 5, 7)),
    ((1, 5, 7), (3, 5, 7)),
    ((3, 5, 1), (3, 1, 7)),
    ((1, 1, 7), (3, 5, 1)),
    ((3,), (3, 2, 5, 7)),
    ((7,), (3, 2, 5, 7)),
    ((3, 2), (3, 2, 5, 7)),
    ((3, 2, 5), (3, 2, 5, 7)),
    ((3, 1, 5), (3, 2, 5, 7)),
    ((1, 2, 1, 7), (3, 1, 5, 7)),
    ((5, 1), (1, 7)),
]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_broadcasting(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], swap: bool, backend: str
) -> None:
    a, b = operands(1, *(shapes[::-1] if swap else shapes))
    check("BinaryOp 0=1", a, b, backend=backend)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "params", ["0=0", "0=1", "0=2", "0=1 -23301=3,0.5,-1.0,2.0", "0=0 -23301=3,0.5,-1.0,2.0"]
)
def test_eltwise(params: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"Eltwise {params}", *(image(*shape, seed=i) for i in range(3)), backend=backend)
