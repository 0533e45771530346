"""Elementwise layers against ncnn, every type in every rank: many layers on the same inputs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.peers.ncnn.peer import compare_with_ncnn, image, whole_net
from tests.peers.ncnn.test_reduction import side_by_side

SHAPES = [(17,), (9, 12), (12, 5, 3), (13, 2, 3, 5)]
#: Types of BinaryOp and UnaryOp that need operands above 0.
POSITIVE_PAIRS = (3, 6, 8, 9, 15, 16)
POSITIVE = (5, 6, 8, 15, 17)
FULL = (6, 4, 3, 5)


def uniform(low: float, high: float, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def pairs(operands: list[np.ndarray], layers: list[tuple[str, int, int]], backend: str) -> None:
    """Compares each of the layers (its line, which two operands it takes)."""
    net, count = [], len(layers)
    for number in range(len(operands)):
        copies = " ".join(f"x{number}_{i}" for i in range(count))
        net.append(f"Input in{number} 0 1 x{number}")
        net.append(f"Split split{number} 1 {count} x{number} {copies}")
    for i, (line, a, b) in enumerate(layers):
        kind, *params = line.split()
        net.append(f"{kind} layer{i} 2 1 x{a}_{i} x{b}_{i} y{i} {' '.join(params)}")
    used = {f"x{n}": array for n, array in enumerate(operands)}
    blobs = (count + 1) * (len(operands) + 1)
    text = f"7767517\n{len(net)} {blobs}\n" + "\n".join(net) + "\n"
    compare_with_ncnn(text, None, used, (backend,))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_axes_of_size_one_on_either_side(rank: int, backend: str) -> None:
    shapes = list(itertools.product(*((size, 1) for size in FULL[:rank])))
    operands = [image(*shape, seed=n) for n, shape in enumerate(shapes)]
    chosen = [p for p in itertools.product(range(len(shapes)), repeat=2) if rank < 4 or sum(p) % 3]
    pairs(operands, [(f"BinaryOp 0={(a + b) % 3}", a, b) for a, b in chosen], backend)


@pytest.mark.parametrize("op", range(19))
def test_every_pair_of_ranks(op: int, backend: str) -> None:
    shapes = [FULL[:rank] for rank in range(1, 5)]
    shapes += [(1,), FULL[-1:], (1, 4), (6, 1, 3)]
    draw = (
        (lambda s, n: uniform(0.1, 3, s, n))
        if op in POSITIVE_PAIRS
        else (lambda s, n: image(*s, seed=n))
    )
    operands = [draw(shape, n) for n, shape in enumerate(shapes)]
    chosen = [*itertools.permutations(range(4), 2), (4, 3), (2, 4), (3, 5), (5, 3)]
    chosen += [(6, 2), (2, 6), (7, 3), (3, 7)]
    pairs(operands, [(f"BinaryOp 0={op}", a, b) for a, b in chosen], backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_binary_with_scalar(shape: tuple[int, ...], backend: str) -> None:
    signed = [op for op in range(19) if op not in POSITIVE_PAIRS]
    lines = [f"BinaryOp 0={op} 1=1 2={b}" for op in signed for b in (0.2, -1.7)]
    side_by_side(lines, image(*shape), backend)
    lines = [f"BinaryOp 0={op} 1=1 2={b}" for op in POSITIVE_PAIRS for b in (0.2, 1.7)]
    side_by_side(lines, uniform(0.1, 3, shape), backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unary(shape: tuple[int, ...], backend: str) -> None:
    domains = {
        (-15.0, 15.0): (0, 1, 2, 3, 4, 9, 10, 14, 16, 18, 19, 20),
        (-3.0, 3.0): (7, 21, 22, 23, 24),
        (0.001, 2.0): POSITIVE,
        (-0.99, 0.99): (11, 12, 13, 26),
        (1.001, 2.0): (25,),
        (-0.99, 2.0): (27,),
    }
    assert sorted(op for ops in domains.values() for op in ops) == list(range(28))
    for (low, high), ops in domains.items():
        side_by_side([f"UnaryOp 0={op}" for op in ops], uniform(low, high, shape), backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activations(shape: tuple[int, ...], backend: str) -> None:
    plain = "AbsVal BNLL TanH Sigmoid Softplus Swish Mish Erf GELU ELU CELU SELU HardSigmoid"
    plain += " HardSwish Shrink Threshold Dropout ReLU Clip Power Exp Bias"
    lines = plain.split()
    lines[-1] = f"Bias 0={shape[0] if len(shape) > 2 else 1}"
    lines += ["ELU 0=1.0", "CELU 0=0.1", "SELU 0=1.5 1=1.1", "HardSigmoid 0=0.5 1=0.4"]
    lines += ["HardSwish 0=0.5 1=0.5", "Shrink 0=0.5 1=0.3", "Threshold 0=1.0", "Dropout 0=0.2"]
    lines += ["ReLU 0=0.1", "Clip 0=-1.0 1=1.0", "Clip 0=0.5", "Clip 1=0.5", "Power 0=0.0"]
    lines += ["Power 0=2.0 1=0.3 2=0.1", "Power 0=3.0", "Exp 0=2.0 1=0.5 2=0.1"]
    lines += ["Exp 1=1.5 2=0.3", f"PReLU 0={shape[0]}", "PReLU 0=1", f"Scale 0={shape[0]}"]
    lines += [f"Scale 0={shape[0]} 1=1", f"BatchNorm 0={shape[0]} 1=0.01"]
    side_by_side(lines, image(*shape, scale=3), backend)
    lines = ["Log", "Log 0=2.0", "Log 0=10.0 1=0.7 2=0.2", "Log 1=2.0 2=1.0", "Power 0=0.5"]
    lines += ["Power 0=-0.5 1=2.0 2=0.1", "Power 0=1.7 1=0.5 2=0.5"]
    side_by_side(lines, uniform(0.01, 5, shape), backend)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_eltwise(shape: tuple[int, ...], count: int, backend: str) -> None:
    inputs = [f"Input in{n} 0 1 x{n}" for n in range(count)]
    copies = [[f"x{n}_{i}" for i in range(6)] for n in range(count)]
    net = inputs + [f"Split s{n} 1 6 x{n} {' '.join(copies[n])}" for n in range(count)]
    weights = ",".join(f"{v:.2f}" for v in np.linspace(-1.3, 2, count))
    for i, (op, extra) in enumerate(itertools.product(range(3), ("", f"-23301={count},{weights}"))):
        names = " ".join(copies[n][i] for n in range(count))
        net.append(f"Eltwise layer{i} {count} 1 {names} y{i} 0={op} {extra}")
    arrays = {f"x{n}": image(*shape, seed=n) for n in range(count)}
    compare_with_ncnn(whole_net(*net), None, arrays, (backend,))
