"""Means that are subtracted from inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.openvino.cells import run
from tests.openvino_writer import Net

from vknn.errors import InputError, ModelFormatError
from vknn.formats import load


def with_means(channels: str, reference: str = "data") -> Net:
    net = Net(5)
    net.layer("ReLU", [net.input("data", (1, 2, 1, 3))], [(1, 2, 1, 3)], {"negative_slope": 1})
    name = f' reference-layer-name="{reference}"' if reference else ""
    net.extra = f'<pre-process mean-precision="FP32"{name}>{channels}</pre-process>'
    return net


@pytest.mark.parametrize("reference", ["data", ""])
def test_mean_values(reference: str, tmp_path: Path) -> None:
    channels = '<channel><mean value="1.5"/></channel><channel><mean value="2"/></channel>'
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 1, 3)
    (found,) = run(with_means(channels, reference).save(tmp_path), {"data": x}).values()
    assert np.array_equal(found, x - np.reshape([1.5, 2], (1, 2, 1, 1)))


def test_mean_images_and_ids(tmp_path: Path) -> None:
    net = with_means(
        '<channel id="1"><mean offset="12" size="12"/><scale value="7"/></channel>'
        '<channel id="0"><mean offset="0" size="12"/></channel>'
    )
    image = np.arange(6, dtype=np.float32)
    net.blob += image.tobytes()
    x = np.zeros((3, 2, 1, 3), np.float32)
    (found,) = run(net.save(tmp_path), {"data": x}).values()
    assert np.array_equal(found, x - image.reshape(1, 2, 1, 3))
    with pytest.raises(InputError, match="mean image of channel 0"):
        run(net.save(tmp_path), {"data": np.zeros((1, 2, 1, 4))})


@pytest.mark.parametrize(
    ("channels", "reference", "said"),
    [
        ('<channel id="0"><mean value="1"/></channel>', "data", "1 channels of the input's 2"),
        ('<channel><mean value="1"/></channel><channel/>', "data", "1 channels of the input's 2"),
        ('<channel id="3"><mean value="1"/></channel>', "data", "channel '3' of 1"),
        ('<channel><mean value="x"/></channel>', "data", "has the value 'x'"),
        ('<channel><mean value="1"/></channel>', "other", "'other', which is no Input"),
        ('<channel><mean offset="0" size="99"/></channel>' * 2, "data", "do not lie inside"),
    ],
)
def test_wrong_means(channels: str, reference: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=said):
        load(with_means(channels, reference).save(tmp_path))


def test_without_means_nothing_is_done(tmp_path: Path) -> None:
    net = with_means("<channel><scale value='2'/></channel>")
    (found,) = run(net.save(tmp_path), {"data": np.ones((1, 2, 1, 3))}).values()
    assert (found == 1).all()
