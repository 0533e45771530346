"""The binary form of a network, as ncnn itself reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.test_fuzz import RICH
from tests.peers.ncnn.networks import he_weights, network_input
from tests.peers.ncnn.peer import (
    TOLERANCE,
    assert_close,
    image,
    ncnn_wheel,
    quiet_net,
    run_vknn,
    whole_net,
)

from vknn import formats
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.writer import format_bin, format_param_bin

ARITHMETIC = whole_net(
    "Input i 0 1 x",
    'Reshape r 1 1 x a 6="0w,*(0h,0c)"',
    "Clip c 1 1 a b 0=-1.0 1=0.5",
    "BinaryOp m 1 1 b d 0=2 1=1 2=3.0",
    "Crop s 1 1 d e -23309=1,-2 -23310=1,-233 -23311=1,-2",
    "InnerProduct f 1 1 e y 0=3 1=1 2=15 9=3 -23310=2,-0.2,0.5",
)


def run_ncnn_binary(
    path: Path, inputs: Mapping[int, np.ndarray], outputs: list[int]
) -> list[np.ndarray]:
    """ncnn's own answers for a .param.bin, by blob indices."""
    net = quiet_net()
    assert net.load_param_bin(str(path)) == 0, "ncnn does not load the .param.bin"
    assert net.load_model(str(path.with_name("net.bin"))) == 0, "ncnn does not load the .bin"
    extractor = net.create_extractor()
    extractor.set_light_mode(False)
    mats = [(i, ncnn_wheel().Mat(x).clone()) for i, x in inputs.items()]
    assert all(extractor.input(i, mat) == 0 for i, mat in mats)
    results = [np.array(extractor.extract(i)[1]) for i in outputs]
    del extractor  # before the net
    return results


def compare(folder: Path, text: str, x: np.ndarray, backend: str) -> None:
    record = parse_param(text.encode())
    path = folder / "net.param.bin"
    path.write_bytes(format_param_bin(record))
    (folder / "net.bin").write_bytes(format_bin(record, he_weights(record)))
    names = [spec.name for spec in formats.load(path).outputs]
    expected = run_ncnn_binary(path, {0: x}, [int(n) for n in names])
    actual = run_vknn(path, {"0": x}, backend)
    assert set(actual) == set(names)
    for name, array in zip(names, expected, strict=True):
        assert_close(actual[name], array, TOLERANCE, name)


@pytest.mark.parametrize(
    ("text", "shape"), [(RICH, (4, 9, 9)), (ARITHMETIC, (2, 3, 5))], ids=["rich", "arithmetic"]
)
def test_small_networks(text: str, shape: tuple[int, ...], tmp_path: Path, backend: str) -> None:
    compare(tmp_path, text, image(*shape), backend)


@pytest.mark.parametrize("name", ["squeezenet", "nanodet_m"])
def test_benchmark_network(name: str, shared: Path, tmp_path: Path) -> None:
    text = (shared / "benchmark" / "ncnn" / f"{name}.param").read_text()
    compare(tmp_path, text, network_input(name), "numpy")
