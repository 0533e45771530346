"""Damaged files: whatever happens to them, nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import random
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from vknn.errors import VknnError
from vknn.formats.openvino.model import OpenvinoModel
from vknn.formats.openvino.reader import parse_net
from vknn.formats.openvino.validation import check
from vknn.graph import DType, TensorType, validate

pytestmark = pytest.mark.long

#: A vector of each of these layers, the one with the smallest file.
FOLDER = ("vectors", "openvino")
SECONDS = 2.0
ROUNDS = 60


def _vectors(shared: Path) -> dict[str, Path]:
    """Layer or net -> the folder of its smallest vector."""
    folder = shared.joinpath(*FOLDER)
    if not folder.exists():
        pytest.skip("shared/vectors/openvino is not there")
    found: dict[str, Path] = {}
    for file in sorted(folder.glob("*/model.xml"), key=lambda p: p.stat().st_size):
        found.setdefault(file.parent.name.split(".")[0], file.parent)
    return found


@pytest.fixture(scope="module")
def seeds(shared: Path) -> dict[str, tuple[bytes, Path]]:
    """The text of each seed and its weights file."""
    return {
        name: ((path / "model.xml").read_bytes(), path / "model.bin")
        for name, path in _vectors(shared).items()
    }


def attempt(data: bytes, weights: Path) -> bool:
    """Reads and builds a net; True where nothing was wrong with it."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", RuntimeWarning)
            net = parse_net(data, "fuzzed")
            model = OpenvinoModel(net, check(net, weights, "fuzzed"), "fuzzed")
            sizes = [np.prod([d or 1 for d in s.shape or ()]) for s in model.inputs]
            if max(sizes, default=0) < 1 << 20:
                types = {
                    s.name: TensorType(s.shape or (), DType(s.dtype_name)) for s in model.inputs
                }
                validate(model.build(types))
    except VknnError:
        return False
    finally:
        assert time.process_time() - start < SECONDS, data
    return True


def test_damaged_bytes(seeds: dict[str, tuple[bytes, Path]]) -> None:
    rng = random.Random(1)
    read = 0
    for seed, weights in seeds.values():
        for _ in range(ROUNDS // 3):
            data = bytearray(seed)
            for _ in range(rng.choice((1, 1, 2, 8))):
                _damage(data, rng)
            read += attempt(bytes(data), weights)
    assert 0 < read < ROUNDS // 3 * len(seeds)


def _damage(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[place] = rng.choice(b'0123456789<>/="&,.-')
    elif kind == 2:
        del data[place : place + rng.randrange(1, 30)]
    else:
        data[place:place] = data[rng.randrange(len(data)) :][: rng.randrange(1, 60)]


#: What the values of attributes and dims are replaced with.
VALUES = (
    "", "0", "-1", "1", "2", "3", "7", "1.5", "-0.5", "nan", "inf", "1e30", "2147483647",
    "-2147483648", "4294967296", "18446744073709551615", "99999999999999999999999", "x", "true",
    "1,1", "0,0", "-1,-1", "1,2,3", "1,1,1,1,1,1,1,1", ",", "1,,2", "max", "FP16", "I32", "U8",
    "I64", "BIN", "1000", "100000",
)  # fmt: skip
_VALUE = re.compile(rb'(?<==")[^"]*(?=")|(?<=<dim>)[^<]*(?=</dim>)')


def test_damaged_values(seeds: dict[str, tuple[bytes, Path]]) -> None:
    """Attributes, ids, offsets and dims with other values in their places."""
    rng = random.Random(2)
    read = 0
    for seed, weights in seeds.values():
        places = [m.span() for m in _VALUE.finditer(seed)]
        for _ in range(ROUNDS):
            data = seed
            for start, end in sorted(rng.sample(places, rng.choice((1, 1, 1, 2, 3))), reverse=True):
                data = data[:start] + rng.choice(VALUES).encode() + data[end:]
            read += attempt(data, weights)
    assert 0 < read < ROUNDS * len(seeds)


def test_attributes_that_are_gone(seeds: dict[str, tuple[bytes, Path]]) -> None:
    """Each attribute, blob, port and edge left out."""
    part = re.compile(rb' [\w-]+="[^"]*"|<(?:weights|biases|custom|edge)[^>]*/>|<port.*?</port>')
    for seed, weights in seeds.values():
        spans = [m.span() for m in part.finditer(seed)]
        for start, end in spans[:: max(1, len(spans) // ROUNDS)]:
            attempt(seed[:start] + seed[end:], weights)


@pytest.mark.parametrize("name", ["Concat", "TensorIterator"])
def test_truncated(name: str, seeds: dict[str, tuple[bytes, Path]]) -> None:
    seed, weights = seeds[name]
    for length in range(0, len(seed), max(1, len(seed) // 200)):
        attempt(seed[:length], weights)
