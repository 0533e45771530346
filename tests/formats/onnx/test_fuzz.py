"""Damaged files: whatever happens to them, nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from vknn.errors import VknnError
from vknn.formats.onnx.loader import check_operators
from vknn.formats.onnx.model import OnnxModel
from vknn.formats.onnx.reader import parse_model
from vknn.graph import DType, TensorType, validate

pytestmark = pytest.mark.long

SECONDS = 3.0
#: Mutations of each seed.
ROUNDS = 12
_SMALL = 30_000


@pytest.fixture(scope="module")
def seeds(shared: Path) -> list[Path]:
    """The smallest vector of each operator."""
    folder = shared / "vectors" / "onnx"
    if not folder.exists():
        pytest.skip("shared/vectors/onnx is not there")
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*/*/model.onnx"), key=lambda p: (p.stat().st_size, str(p))):
        found.setdefault(path.parent.parent.name, path)
    containers = folder.glob("CONTAINER/*/model.onnx")
    return [p for p in sorted({*found.values(), *containers}) if p.stat().st_size < _SMALL]


def attempt(data: bytes, file: Path) -> bool:
    """Reads and builds a model; True where nothing was wrong with it."""
    start = time.process_time()
    try:
        record = parse_model(data, str(file))
        check_operators(record, str(file))
        model = OnnxModel(record, str(file))
        types = {}
        for spec in model.inputs:
            dims = tuple(2 if size is None else size for size in spec.sizes or ())
            if len(dims) > 8 or np.prod(dims, dtype=float) > 1 << 20:
                return False
            dtype = DType.STRING if spec.dtype == object else DType(spec.dtype.name)
            types[spec.name] = TensorType(dims, dtype)
        with np.errstate(all="ignore"):
            validate(model.build(types))
    except VknnError:
        return False
    finally:
        assert time.process_time() - start < SECONDS
    return True


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A change of a few bytes, or of the length."""
    changed = bytearray(data)
    kind = chance.randrange(5)
    place = chance.randrange(len(changed))
    if kind == 0:
        return bytes(changed[:place])
    if kind == 1:
        return bytes(changed[:place] + changed[place + chance.randrange(1, 9) :])
    if kind == 2:
        return bytes(changed[:place] + chance.randbytes(chance.randrange(1, 9)) + changed[place:])
    for _ in range(chance.randrange(1, 4)):
        changed[chance.randrange(len(changed))] = chance.choice(
            (0, 1, 127, 128, 255, chance.randrange(256))
        )
    return bytes(changed)


def test_damaged_files(seeds: list[Path]) -> None:
    chance, good, count = random.Random(16), 0, 0
    for path in seeds:
        data = path.read_bytes()
        for _ in range(ROUNDS):
            changed = mutated(data, chance)
            try:
                good += attempt(changed, path)
            except Exception as error:
                raise AssertionError(f"{path}: {changed!r}") from error
            count += 1
    assert count > 1000
    assert 0 < good < count
