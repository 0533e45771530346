"""Damaged files: whatever happens to them, nothing but a VknnError comes out."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import SMALL, net, weights_for

from vknn import formats
from vknn.errors import VknnError
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.writer import format_bin
from vknn.graph import TensorType, validate

#: One of most layers, so that mutations reach their parameters.
RICH = net(
    "Input i 0 1 x",
    "Padding pad 1 1 x a 0=1 1=1 2=1 3=1 4=0 5=0.5",
    "ConvolutionDepthWise dw 1 1 a b 0=4 1=3 2=1 3=1 4=1 5=1 6=36 7=4 8=101 9=1",
    "Convolution conv 1 1 b c 0=8 1=1 5=1 6=32 8=1 9=6 -23310=2,0.2,0.5",
    "Split split 1 3 c d e f",
    "Pooling pool 1 1 d g 0=1 1=3 2=2 5=0",
    "Interp up 1 1 g h 0=2 1=2.0 2=2.0",
    "ShuffleChannel shuffle 1 1 e j 0=2",
    "Slice slice 1 2 j k l -23300=2,-233,-233 1=0",
    "Concat concat 2 1 k l m 0=0",
    "BinaryOp add 2 1 m f n 0=0",
    "Crop crop 1 1 n o -23309=2,1,1 -23310=2,6,-1 -23311=2,1,2",
    "LRN lrn 1 1 o p 0=0 1=3",
    "Reshape reshape 1 1 p q 0=-1 1=8",
    "Permute permute 1 1 q r 0=1",
    "LayerNorm norm 1 1 r s 0=8 1=0.001 2=1",
    "MultiHeadAttention mha 1 1 s t 0=8 1=2 2=64 3=8 4=8",
    "Gemm gemm 1 1 t u 3=1 5=1 6=1 8=6 9=8 10=4",
    "Softmax softmax 1 1 u v 0=-1 1=1",
    "Eltwise eltwise 2 1 u v w 0=1 -23301=2,0.5,2.0",
    "MemoryData memory 0 1 y 0=6",
    "BinaryOp mul 2 1 w y z 0=2",
    "InnerProduct fc 1 1 z out 0=3 1=1 2=18 8=2",
)  # fmt: skip

TOKENS = ["-1", "0", "1", "-233", "-234", "2147483647", "1e30", "nan", "inf", '"', "=", ",", "0=0"]
TOKENS += ["-23300=2,1,1", "7=3", "99999999999999999999", "x", "-0.0", "1e-38", "\0", "ÿ"]


def attempt(path: Path, shape: tuple[int, ...]) -> None:
    """Loads and builds; a VknnError is as good as success."""
    try:
        model = formats.load(path)
        types = {spec.name: TensorType.of(np.zeros(shape, spec.dtype)) for spec in model.inputs}
        arrays = {name: np.zeros(shape, np.int32) for name in model.value_inputs}
        validate(model.build(types, arrays))
    except VknnError as error:
        assert str(error)  # noqa: PT017 (success is as good)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    path = tmp_path / "net.param"
    path.write_text(RICH)
    data = format_bin(parse_param(RICH.encode()), weights_for(RICH), "fp16")
    # Room behind the end, so that larger sizes often still find bytes.
    path.with_suffix(".bin").write_bytes(data + bytes(4096))
    return path


def test_the_undamaged_network_builds(files: Path) -> None:
    model = formats.load(files)
    graph = model.build({"x": TensorType((4, 9, 9))})
    validate(graph)
    assert graph.outputs["out"].type.rank in (2, 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_changed_tokens(seed: int, files: Path) -> None:
    rng = random.Random(seed)
    tokens = RICH.split()
    for _ in range(500):
        changed = list(tokens)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = mutate(rng, rng.choice(changed))
        files.write_text(" ".join(changed), encoding="utf-8")
        attempt(files, (4, 9, 9))


def mutate(rng: random.Random, token: str) -> str:
    """A token like the given one, or quite another."""
    key, mark, value = token.partition("=")
    choice = rng.random()
    if mark and choice < 0.6:
        return f"{key}={rng.choice([*TOKENS, str(rng.randint(-5, 40)), value + value])}"
    if mark and choice < 0.8:
        return f"{rng.randint(-2, 33)}={value}"
    if choice < 0.9:
        return rng.choice(TOKENS)
    return token + rng.choice(TOKENS)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_changed_bytes(seed: int, files: Path) -> None:
    rng = random.Random(seed)
    original = RICH.encode()
    for _ in range(500):
        data = bytearray(original)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        files.write_bytes(bytes(data))
        attempt(files, (4, 9, 9))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_changed_weights(seed: int, files: Path) -> None:
    """Tags decide how much is read; values may be anything."""
    rng = random.Random(seed)
    weights = files.with_suffix(".bin")
    original = weights.read_bytes()
    for _ in range(200):
        data = bytearray(original)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        weights.write_bytes(bytes(data))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "(?s).*bytes are left over", RuntimeWarning)
            attempt(files, (4, 9, 9))


@pytest.mark.parametrize("shape", [(1,), (9,), (4, 9), (9, 9), (4, 1, 1), (4, 2, 9, 9), (1, 1, 1)])
def test_other_shapes(shape: tuple[int, ...], files: Path) -> None:
    attempt(files, shape)


def test_small_network_cut_anywhere(files: Path) -> None:
    for size in range(len(SMALL)):
        files.write_text(SMALL[:size], encoding="utf-8")
        attempt(files, (3, 8, 8))
