"""Loading: everything that can be wrong with the files is said at once, with file and place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import SMALL, build, net, run, weights_for, write

from vknn import formats
from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.writer import format_bin
from vknn.graph import DType

CONV = "Convolution conv 1 1 data y"


def refuse(folder: Path, text: str, message: str, data: bytes = b"") -> ModelFormatError:
    """The error that a .param with this .bin gives."""
    path = folder / "bad.param"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes(data)
    with pytest.raises(ModelFormatError, match=message) as caught:
        formats.load(path)
    assert str(folder) in str(caught.value)
    return caught.value


def test_names_and_types(tmp_path: Path) -> None:
    model = formats.load(write(tmp_path, SMALL))
    assert [(s.name, s.shape, s.dtype) for s in model.inputs] == [("data", None, DType.FLOAT32)]
    assert [s.name for s in model.outputs] == ["prob", "features"]


@pytest.mark.parametrize(
    ("layers", "message", "layer"),
    [
        (["ReLU r 1 1 a b"], "'a', which no layer produces", "r"),
        (["Input i 0 1 a", "ReLU r 1 1 b c", "ReLU s 1 1 a b"], "produced only later", "r"),
        (["Input i 0 1 a", "BinaryOp r 2 1 a b b"], "its own output 'b'", "r"),
        (["Input i 0 1 a", "ReLU r 1 1 a a"], "its own output|produced twice", "r"),
        (["Input i 0 1 a", "ReLU r 1 1 a b", "ReLU s 1 1 a b"], "twice, before by layer 'r'", "s"),
        (["Input i 0 2 a b"], "takes 1 outputs, not 2", "i"),
        (["Input i 0 1 a", "ReLU r 2 1 a a b"], "takes 1 inputs, not 2", "r"),
        (["Input i 0 1 a", "Eltwise r 1 1 a b"], "takes 2 or more inputs, not 1", "r"),
        (["Input i 0 1 a", "ReLU r 1 1 a b 0=nan"], "must be a number, not 'nan'", "r"),
        (["Input i 0 1 a", "ReLU r 1 1 a b 0=inf"], "must be a number, not 'inf'", "r"),
        (["Input i 0 1 a", "ReLU r 1 1 a b 0=1,2"], "single number", "r"),
        (["Input i 0 1 a", "UnaryOp r 1 1 a b 0=1.5"], "must be a whole number", "r"),
        (["Input i 0 1 a", "UnaryOp r 1 1 a b 0=99"], "unknown op_type 99", "r"),
        (["Input i 0 1 a", "BinaryOp r 1 1 a b 0=-1"], "unknown op_type -1", "r"),
        (["Input i 0 1 a", "Slice r 1 2 a b c 0=2"], "must be an array", "r"),
        (["Input i 0 1 a", "Softmax r 1 1 a b 0=1"], "fixbug0", "r"),
        (["Input i 0 1 a", "Interp r 1 1 a b"], "unknown resize_type 0", "r"),
        (["Input i 0 1 a", "Interp r 1 1 a b 0=1 1=0.0"], "must be positive", "r"),
        (["Input i 0 1 a", "Pooling r 1 1 a b 0=7 1=2"], "unknown pooling type", "r"),
        (["Input i 0 1 a", "Pooling r 1 1 a b"], "must be positive", "r"),
        (["Input i 0 1 a", "Pooling r 1 1 a b 1=2 2=0"], "must be positive", "r"),
        (["Input i 0 1 a", "Padding r 1 1 a b 0=-1"], "negative padding", "r"),
        (["Input i 0 1 a", "Permute r 1 1 a b 0=24"], "unknown order_type", "r"),
        (["Input i 0 1 a", "Reshape r 1 1 a b"], "no size", "r"),
        (["Input i 0 1 a", "Reshape r 1 1 a b 0=-1 1=-1"], "more than one", "r"),
        (["Input i 0 1 a", "Scale r 2 1 a a b 0=-233 1=1"], "takes no bias", "r"),
        (["MemoryData m 0 1 a"], "no elements", "m"),
        (["MemoryData m 0 1 a 0=-3"], "no elements", "m"),
        (["Input i 0 1 a", "ROIAlign r 2 1 a a c 0=2 1=2 3=99999999"], "absurdly large", "r"),
    ],
)
def test_layers_that_contradict_themselves(
    layers: list[str], message: str, layer: str, tmp_path: Path
) -> None:
    error = refuse(tmp_path, net(*layers), message)
    assert error.layer == layer
    assert error.offset is not None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("1=3 6=27", "num_output 0"),
        ("0=-4 1=3 6=27", "num_output -4"),
        ("0=4 6=27", "kernel 0 x 0"),
        ("0=4 1=3 6=107", "not a multiple"),
        ("0=4 1=3", "not a multiple"),
        ("0=4 1=3 6=108 3=0", "strides and dilations"),
        ("0=4 1=3 6=108 4=-1 14=2", "negative padding"),
        ("0=4 1=3 6=108 9=9", "unknown activation"),
        ("0=4 1=3 6=108 9=2", "needs 1 parameters"),
        ("0=4 1=3 6=108 8=7", "int8_scale_term"),
        ("0=4 1=3 6=108 18=nan", "not 'nan'"),
    ],
)
def test_convolutions_that_contradict_themselves(params: str, message: str, tmp_path: Path) -> None:
    refuse(tmp_path, net("Input i 0 1 data", f"{CONV} {params}"), message)


def test_all_unknown_layers_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "x.param"
    path.write_text(net("Input i 0 1 a", "Foo f 1 1 a b", "ReLU r 1 1 b c", "Bar g 1 1 c d"))
    with pytest.raises(UnsupportedLayerError) as caught:
        formats.load(path)
    assert caught.value.layers == ("Foo 'f'", "Bar 'g'")
    assert str(path) in str(caught.value)


def test_all_unsupported_parameters_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "x.param"
    path.write_text(net("Input i 0 1 a", "Cast m 1 1 a b 0=1 1=3", "Cast g 1 1 b c 0=0 1=1"))
    with pytest.raises(UnsupportedLayerError) as caught:
        formats.load(path)
    assert len(caught.value.layers) == 2
    assert "'m' with conversion 1 -> 3" in caught.value.layers[0]


# --- weights ------------------------------------------------------------------------------------


def test_a_missing_bin_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    path.with_suffix(".bin").unlink()
    with pytest.raises(ModelFormatError, match=r"net\.bin.*no such weights file.*conv1"):
        formats.load(path)
    with pytest.raises(ModelFormatError, match=r"other\.bin.*no such weights file"):
        formats.load(path, tmp_path / "other.bin")


@pytest.mark.parametrize("storage", ["fp32", "fp16", "table"])
def test_every_truncation_of_a_bin_is_seen_at_load(storage: str, tmp_path: Path) -> None:
    path = write(tmp_path, SMALL, storage)  # type: ignore[arg-type]
    data = path.with_suffix(".bin").read_bytes()
    for size in range(0, len(data), 37):
        path.with_suffix(".bin").write_bytes(data[:size])
        with pytest.raises(ModelFormatError, match="truncated") as caught:
            formats.load(path)
        assert caught.value.file == str(path.with_suffix(".bin"))
        assert caught.value.layer in ("conv1", "fc")


def test_trailing_bytes_are_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    x = np.ones((3, 8, 8), np.float32)
    expected = run(path, {"data": x})
    with path.with_suffix(".bin").open("ab") as file:
        file.write(b"more")
    message = r"\.bin: 4 of \d+ bytes are left over .* another network"
    with pytest.warns(RuntimeWarning, match=message):
        found = run(path, {"data": x})
    assert np.array_equal(found["prob"], expected["prob"])


@pytest.mark.parametrize("empty", [True, False])
def test_a_net_without_weights_needs_no_bin(empty: bool, tmp_path: Path) -> None:
    path = tmp_path / "relu.param"
    path.write_text(net("Input i 0 1 x", "ReLU r 1 1 x y"))
    if empty:
        path.with_suffix(".bin").write_bytes(b"")
    x = np.array([-1, 2], np.float32)
    assert run(path, {"x": x})["y"].tolist() == [0, 2]


def test_weights_may_have_another_name(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    other = path.with_suffix(".bin").rename(tmp_path / "weights.dat")
    assert build(formats.load(path, other), data=(3, 8, 8)).outputs.keys() == {"prob", "features"}


def test_absurd_sizes_allocate_nothing(tmp_path: Path) -> None:
    """Sizes are held against the file before anything is made of them."""
    for layer in (
        "MemoryData m 0 1 y 0=2000000000",
        "MemoryData m 0 1 y 0=46341 1=46341 2=46341",
        "MemoryData m 0 1 y 0=46341 1=46341 2=46341 21=0",
    ):
        refuse(tmp_path, net(layer), "truncated", bytes(64))
    huge = "0=1000000 1=1000 6=2000000000"
    refuse(
        tmp_path, net("Input i 0 1 data", f"{CONV} {huge}"), "not a multiple|truncated", bytes(8)
    )


def test_int8_weights_need_a_scale(tmp_path: Path) -> None:
    text = net("Input i 0 1 data", f"{CONV} 0=4 1=3 6=108")
    weights = weights_for(text)
    weights["conv"]["weight"] = weights["conv"]["weight"].astype(np.int8)
    path = tmp_path / "net.param"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes(format_bin(parse_param(text.encode()), weights))
    model = formats.load(path)
    with pytest.raises(Exception, match=r"layer 'conv' \(Convolution\): int8 weights"):
        build(model, data=(3, 8, 8))


def test_weights_stay_in_the_file(tmp_path: Path) -> None:
    """A constant of the graph is a view of the mapped file."""
    path = write(tmp_path, SMALL)
    graph = build(formats.load(path), data=(3, 8, 8))
    (weight,) = (v for v in graph.values() if v.name == "conv1/weight")
    assert weight.constant is not None
    assert not weight.constant.flags.writeable
    assert not weight.constant.flags.owndata
