"""The writer: files that it writes read as the same records and arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import SMALL, net, run, weights_for, write

from vknn import formats
from vknn.errors import ModelFormatError, ShapeError, UnsupportedLayerError
from vknn.formats.ncnn.random_weights import random_weights, write_random_weights
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.records import LayerRecord, NetRecord
from vknn.formats.ncnn.writer import format_bin, format_param, save, weight_specs


def plain(record: NetRecord) -> list[tuple[object, ...]]:
    return [(r.type, r.name, r.bottoms, r.tops, dict(r.params)) for r in record.layers]


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        net("ReLU r 1 1 a b 0=0.1"),
        net("ReLU r 1 1 a b 0=-1.17549435e-38 1=3.4028235e+38 2=1.0 3=16777217.0"),
        net('Reshape r 1 1 a b 6="0w, 2" -23309=0 1=-233'),
    ],
)
def test_text_round_trip(text: str) -> None:
    record = parse_param(text.encode())
    assert plain(parse_param(format_param(record).encode())) == plain(record)


def test_floats_survive_and_stay_short() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32)
    values = [float(v) for v in bits.view(np.float32) if np.isfinite(v)]
    record = NetRecord((LayerRecord("ReLU", "r", ("a",), ("b",), {0: tuple(values)}),))
    text = format_param(record)
    assert parse_param(text.encode()).layers[0].params[0] == tuple(values)
    tokens = text.split("=", 1)[1].split(",")
    assert max(map(len, tokens)) <= 15


def test_real_files_round_trip(shared: Path) -> None:
    for path in sorted(shared.glob("*/ncnn/*.param")):
        record = parse_param(path.read_bytes())
        assert plain(parse_param(format_param(record).encode())) == plain(record), path.name


@pytest.mark.parametrize(("storage", "tolerance"), [("fp32", 0), ("fp16", 1e-2), ("table", 5e-2)])
def test_weights_round_trip(storage: str, tolerance: float, tmp_path: Path) -> None:
    record, weights = parse_param(SMALL.encode()), weights_for(SMALL)
    path = tmp_path / "a.param"
    save(record, weights, path, storage=storage)  # type: ignore[arg-type]
    model = formats.load(path)
    for layer in model.layers:  # type: ignore[attr-defined]
        for name, weight in layer.weights.items():
            expected = weights[layer.record.name][name]
            assert np.abs(weight.array() - expected).max() <= tolerance


def test_odd_sizes_are_padded(tmp_path: Path) -> None:
    """Arrays behind a half or byte array of odd length start on a multiple of four."""
    text = net("Input i 0 1 x", "InnerProduct f 1 1 x y 0=1 1=1 2=5")
    x = np.arange(5, dtype=np.float32)
    exact = run(write(tmp_path, text), {"x": x})["y"]
    half = run(write(tmp_path, text, "fp16"), {"x": x})["y"]
    assert np.allclose(half, exact, atol=1e-2)


def test_wrong_arrays_are_named() -> None:
    record, weights = parse_param(SMALL.encode()), weights_for(SMALL)
    weights["fc"]["weight"] = np.zeros(3, np.float32)
    with pytest.raises(ShapeError, match=r"'fc': weight has shape \(3,\), not \(5, 4\)"):
        format_bin(record, weights)
    del weights["conv1"]["bias"]
    with pytest.raises(ShapeError, match="'conv1' has no bias"):
        format_bin(record, weights)
    bad = NetRecord((LayerRecord("ReLU", "r", ("a",), ("b",), {0: float("nan")}),))
    with pytest.raises(ShapeError, match="nan"):
        format_param(bad)


def test_specs_stand_in_file_order() -> None:
    names = [(r.name, s.name, s.shape) for r, s in weight_specs(parse_param(SMALL.encode()))]
    assert names == [
        ("conv1", "weight", (4, 3, 3, 3)),
        ("conv1", "bias", (4,)),
        ("fc", "weight", (5, 4)),
        ("fc", "bias", (5,)),
    ]


@pytest.mark.parametrize(
    ("layer", "error"),
    [
        ("Convolution c 1 1 x y 0=3 1=3 6=10", ModelFormatError),
        ("Gemm c 1 1 x y 18=500", UnsupportedLayerError),
        ("Sigmoid c 1 1 z y", ModelFormatError),
        ("Sigmoid c 0 1 y", ModelFormatError),
        ("Nothing c 1 1 x y", UnsupportedLayerError),
    ],
    ids=["size", "term", "blob", "inputs", "type"],
)
def test_random_weights_of_wrong_layers(layer: str, error: type[Exception], tmp_path: Path) -> None:
    path = tmp_path / "a.param"
    path.write_text(f"7767517\n2 2\nInput x 0 1 x\n{layer}\n")
    with pytest.raises(error, match=r"a\.param"):
        write_random_weights(path, tmp_path / "a.bin")


def test_random_weights_of_layers_in_a_circle() -> None:
    text = """7767517
3 4
Input            in     0 1 x
Split            split  1 2 a a b
ReLU             relu   1 1 a y
"""
    assert not any(random_weights(parse_param(text.encode()), 0).values())
