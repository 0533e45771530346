"""Damaged networks of layers that move elements, and of blobs with a batch."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import net
from tests.formats.ncnn.test_fuzz import mutate

from vknn import formats
from vknn.errors import VknnError
from vknn.graph import DType, TensorType, validate

MOVING = net(
    "Input i 0 1 x",
    "Input j 0 1 w",
    "Split split 1 2 w w1 w2",
    "Tile tile 1 1 x a 0=1 1=2",
    "Tile repeat 1 1 a b -23302=2,1,2",
    "CopyTo copy 2 1 b w1 d 0=1 1=2 2=1",
    "CopyTo starts 2 1 d w2 e -23309=2,1,-5 -23311=2,0,-1",
    "Flip flip 1 1 e g -23300=2,0,-1",
    "PixelShuffle shuffle 1 1 g h 0=2 1=1",
    "Reorg reorg 1 1 h k 0=2",
    "Packing pack 1 1 k l 0=4",
    "Cast cast 1 1 l m 0=1 1=4",
    "Reshape there 1 1 m n 0=-1 1=4 2=2 13=0",
    "Slice slice 1 2 n o p -23300=2,-233,-233",
    "Concat concat 2 1 o p q 0=0",
    "Reshape back 1 1 q s 0=0 1=-1 12=0",
    "Einsum sum 1 1 s t -23300=5,106,105,45,62,105",
    "Diag diag 1 1 t u 0=-1",
    "Padding pad 1 1 u v 0=1 2=1 4=2",
    "Squeeze squeeze 1 1 v y 0=1",
    "ExpandDims expand 1 1 y out -23303=1,0",
)


def build(path: Path) -> tuple[int, ...]:
    """The shape of the output."""
    model = formats.load(path)
    shapes = {"x": (4, 6, 6), "w": (2, 3, 4)}
    types = {
        s.name: TensorType(shapes.get(s.name, (3, 4)), DType(s.dtype_name)) for s in model.inputs
    }
    arrays = {name: np.zeros(types[name].dims, np.int32) for name in model.value_inputs}
    graph = model.build(types, arrays)
    validate(graph)
    return next(iter(graph.outputs.values())).type.dims


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_changed_parameters(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "net.param"
    path.write_text(MOVING)
    path.with_suffix(".bin").write_bytes(bytes(4096))
    assert len(build(path)) == 4
    tokens = MOVING.split()
    places = [i for i, token in enumerate(tokens) if "=" in token]
    for _ in range(300):
        changed = list(tokens)
        for _ in range(rng.randint(1, 2)):
            place = rng.choice(places)
            changed[place] = mutate(rng, changed[place])
        path.write_text(" ".join(changed))
        try:
            build(path)
        except VknnError as error:
            assert str(error)  # noqa: PT017 (success is as good)
