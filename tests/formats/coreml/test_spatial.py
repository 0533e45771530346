"""Cropping, padding and rearranging, against NumPy and the specification's examples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, run, run_everywhere

from vknn.errors import VknnError

RNG = np.random.default_rng(17)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def edges(top: int, bottom: int, left: int, right: int) -> Any:
    return {
        "borderAmounts": [
            {"startEdgeSize": top, "endEdgeSize": bottom},
            {"startEdgeSize": left, "endEdgeSize": right},
        ]
    }


@pytest.mark.device
@pytest.mark.parametrize("shape", [(2, 6, 7), (1, 2, 6, 7), (2, 1, 2, 6, 7)])
def test_crop(shape: Any) -> None:
    x = normal(*shape)
    y = run_everywhere(layer("crop", cropAmounts=edges(1, 2, 0, 3)), {"x": x})["y"]
    np.testing.assert_array_equal(y, x[..., 1:4, 0:4])
    np.testing.assert_array_equal(run(layer("crop"), {"x": x})["y"], x)
    like = normal(*shape[:-2], 3, 2)
    feeds = {"x": x, "like": like}
    y = run_everywhere(layer("crop", ["x", "like"], offset=[2, 4]), feeds)["y"]
    np.testing.assert_array_equal(y, x[..., 2:5, 4:6])
    ignored = layer("crop", ["x", "like"], cropAmounts=edges(1, 1, 1, 1))
    np.testing.assert_array_equal(run(ignored, feeds)["y"], x[..., :3, :2])


def test_crop_in_the_rank_5_mapping() -> None:
    x = normal(2, 6, 7)
    y = run(layer("crop", cropAmounts=edges(1, 2, 0, 3)), {"x": x}, rank5=True)["y"]
    np.testing.assert_array_equal(y, x[None, None, :, 1:4, 0:4])


PADDINGS = {
    "constant": {"mode": "constant", "constant_values": -1.5},
    "reflection": {"mode": "reflect"},
    "replication": {"mode": "edge"},
}


@pytest.mark.device
@pytest.mark.parametrize("kind", list(PADDINGS))
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 2, 3, 4), (1, 2, 2, 3, 4)])
def test_padding(kind: str, shape: Any) -> None:
    x = normal(*shape)
    inner = {"value": -1.5} if kind == "constant" else {}
    for top, bottom, left, right in ((1, 2, 3, 0), (0, 0, 0, 1), (2, 0, 0, 0)):
        net = layer("padding", paddingAmounts=edges(top, bottom, left, right), **{kind: inner})
        around = [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)]
        expected = np.pad(x, around, **PADDINGS[kind])  # type: ignore[call-overload]
        np.testing.assert_array_equal(run(net, {"x": x})["y"], expected)
    run_everywhere(net, {"x": x})


def test_padding_of_nothing_and_of_no_kind() -> None:
    x = normal(2, 3, 4)
    np.testing.assert_array_equal(run(layer("padding", constant={}), {"x": x})["y"], x)
    y = run(layer("padding", paddingAmounts=edges(1, 0, 0, 1)), {"x": x})["y"]
    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (1, 0), (0, 1)]))


def test_padding_as_the_specification_shows_it() -> None:
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 3, 4)
    net = layer("padding", paddingAmounts=edges(2, 0, 2, 0), reflection={})
    y = run(net, {"x": x}, rank5=True)["y"]
    assert y.shape == (1, 1, 1, 5, 6)
    assert y[0, 0, 0, 0].tolist() == [11, 10, 9, 10, 11, 12]
    assert y[0, 0, 0, 1].tolist() == [7, 6, 5, 6, 7, 8]


def blocks(x: np.ndarray, block: int) -> np.ndarray:
    """Channels -> pixels: channel (row * block + column) * C + c, place by place."""
    *lead, channels, height, width = x.shape
    deep = channels // block**2
    y = np.empty((*lead, deep, height * block, width * block), x.dtype)
    for row, column, c in itertools.product(range(block), range(block), range(deep)):
        y[..., c, row::block, column::block] = x[..., (row * block + column) * deep + c, :, :]
    return y


def shuffled(x: np.ndarray, block: int) -> np.ndarray:
    """Channels -> pixels: channel c * block^2 + row * block + column, place by place."""
    *lead, channels, height, width = x.shape
    y = np.empty((*lead, channels // block**2, height * block, width * block), x.dtype)
    for row, column, c in itertools.product(range(block), range(block), range(y.shape[-3])):
        y[..., c, row::block, column::block] = x[..., (c * block + row) * block + column, :, :]
    return y


@pytest.mark.device
@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("lead", [(), (2,), (2, 1)])
def test_rearranged(block: int, lead: Any) -> None:
    x = normal(*lead, 2 * block**2, 3, 2)
    net = layer("reorganizeData", mode="DEPTH_TO_SPACE", blockSize=block)
    y = run_everywhere(net, {"x": x})["y"]
    np.testing.assert_array_equal(y, blocks(x, block))
    net = layer("reorganizeData", mode="SPACE_TO_DEPTH", blockSize=block)
    np.testing.assert_array_equal(run_everywhere(net, {"x": y})["y"], x)
    net = layer("reorganizeData", mode="PIXEL_SHUFFLE", blockSize=block)
    np.testing.assert_array_equal(run_everywhere(net, {"x": x})["y"], shuffled(x, block))


def test_rearranged_as_the_specification_shows_it() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(8, 1, 2)
    net = layer("reorganizeData", mode="DEPTH_TO_SPACE", blockSize=2)
    y = run(net, {"x": x}, rank5=True)["y"]
    assert y[0, 0].tolist() == [
        [[1, 5, 2, 6], [9, 13, 10, 14]],
        [[3, 7, 4, 8], [11, 15, 12, 16]],
    ]
    net = layer("reorganizeData", mode="PIXEL_SHUFFLE", blockSize=2)
    assert run(net, {"x": x})["y"].tolist() == [
        [[1, 3, 2, 4], [5, 7, 6, 8]],
        [[9, 11, 10, 12], [13, 15, 14, 16]],
    ]


WRONG: dict[str, tuple[Any, tuple[int, ...]]] = {
    "rank of crop": (layer("crop"), (3, 4)),
    "cropped away": (layer("crop", cropAmounts=edges(2, 1, 0, 0)), (1, 3, 4)),
    "one border": (layer("crop", cropAmounts={"borderAmounts": [{}]}), (1, 3, 4)),
    "rank of padding": (layer("padding", constant={}), (3,)),
    "mirrored too far": (layer("padding", paddingAmounts=edges(3, 0, 0, 0), reflection={}), (3, 4)),
    "absurd": (layer("padding", paddingAmounts=edges(1 << 40, 0, 0, 0), constant={}), (3, 4)),
    "large": (
        layer("padding", paddingAmounts=edges(1 << 22, 0, 1 << 22, 0), constant={}),
        (3, 4),
    ),
    "no block": (layer("reorganizeData"), (4, 2, 2)),
    "pixels": (layer("reorganizeData", blockSize=2), (4, 2, 3)),
    "channels": (layer("reorganizeData", mode="DEPTH_TO_SPACE", blockSize=2), (6, 2, 2)),
    "rank of blocks": (layer("reorganizeData", blockSize=2), (2, 2)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, {"x": np.zeros(shape, np.float32)})


def test_a_crop_that_leaves_its_input() -> None:
    for shape, offset in (((2, 3, 4), [1, 0]), ((3, 4), []), ((2, 2, 2), [0])):
        feeds = {"x": normal(2, 3, 4), "like": normal(*shape)}
        with pytest.raises(VknnError, match="crop"):
            run(layer("crop", ["x", "like"], offset=offset), feeds)
