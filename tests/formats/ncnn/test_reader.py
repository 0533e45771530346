"""Text .param: what it means, and what is refused."""

from __future__ import annotations

import pytest
from tests.formats.ncnn.nets import SMALL, net

from vknn.errors import ModelFormatError
from vknn.formats.ncnn.reader import looks_like_param, parse_param
from vknn.formats.ncnn.records import ParamValue


def params(text: str) -> dict[int, ParamValue]:
    """The parameters of a layer that has these."""
    record = parse_param(net(f"ReLU relu 1 1 a b {text}").encode()).layers[0]
    return dict(record.params)


def test_a_network() -> None:
    record = parse_param(SMALL.encode())
    assert [layer.type for layer in record.layers][:2] == ["Input", "Convolution"]
    conv = record.layers[1]
    assert (conv.name, conv.bottoms, conv.tops) == ("conv1", ("data",), ("conv1",))
    assert conv.params[6] == 108
    assert conv.params[10] == (pytest.approx(0.1),)
    assert conv.offset == SMALL.index("Convolution ")
    assert record.layers[2].tops == ("conv1_a", "conv1_b")


def test_lines_mean_nothing() -> None:
    one_line = " ".join(SMALL.split())
    spread = "\r\n\t\n".join(SMALL.split())
    assert parse_param(one_line.encode()).layers[4].params == {0: 5, 1: 1, 2: 20}
    assert parse_param(spread.encode()).layers[4].params == {0: 5, 1: 1, 2: 20}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0=3", {0: 3}),
        ("0=-233", {0: -233}),
        ("0=+7", {0: 7}),
        ("0=1.5", {0: 1.5}),
        ("0=1e-1", {0: pytest.approx(0.1)}),
        ("0=-.5", {0: -0.5}),
        ("0=2.", {0: 2.0}),
        ("0=1 0=2", {0: 2}),
        ("-23309=3,1,2,3", {9: (1, 2, 3)}),
        ("-23330=4,3,8,8,4", {30: (3, 8, 8, 4)}),
        ("-23309=0", {9: ()}),
        ("-23309=2,1.5,2", {9: (1.5, 2)}),
        ("9=1,2,3", {9: (1, 2, 3)}),
        ("9=1.5,", {9: (1.5,)}),
        ('6="0w, 2"', {6: "0w, 2"}),
        ('6="0w,-1" 0=1', {6: "0w,-1", 0: 1}),
        ("6=abc,def", {6: "abc,def"}),
    ],
)
def test_values(text: str, expected: dict[int, ParamValue]) -> None:
    assert params(text) == expected


def test_floats_are_those_of_float32() -> None:
    assert params("0=0.1")[0] == pytest.approx(0.1)
    assert params("0=0.1")[0] != 0.1
    assert params("0=3.4028235e+38")[0] == pytest.approx(3.4028235e38)


def test_names_keep_their_bytes() -> None:
    record = parse_param(net("ReLU a/b:0@x,y 1 1 110:12 größe").encode()).layers[0]
    assert (record.name, record.bottoms, record.tops) == ("a/b:0@x,y", ("110:12",), ("größe",))


def test_a_noop_behind_the_last_layer_is_not_read() -> None:
    assert len(parse_param((SMALL + "Noop n 1 1 prob x\n").encode()).layers) == 6


def test_content_tells_a_param_file() -> None:
    assert looks_like_param(SMALL.encode())
    assert looks_like_param(b" 7767517\r\n3 4")
    assert not looks_like_param(b"7767518\n3 4")
    assert not looks_like_param(b"")


LAYER = "ReLU relu 1 1 a b"

BAD = [
    ("", "the file ends where the magic number"),
    ("7767518\n1 1\nReLU r 1 1 a b", "does not start with 7767517"),
    ("ReLU r 1 1 a b", "not a whole number"),
    ("7767517", "the file ends where the layer count"),
    ("7767517\n5", "the file ends where the blob count"),
    ("7767517\n0 0\n", "must be positive"),
    ("7767517\n-3 4\n", "must be positive"),
    ("7767517\n2000000000 4\nInput i 0 1 a", "cannot stand in"),
    ("7767517\n1 2000000000\nInput i 0 1 a", "absurd blob count"),
    ("7767517\n99999999999 4\n", "does not fit into 32 bits"),
    ("7767517\n1 1\nConvolution c 2 1 a b d", "2 blobs|3 blobs"),
    (net("Input i 0 1 a", layer_count=2), "type of layer 2 of 2"),
    (net("Input i 0 1 a", "ReLU r 1 1 a b", layer_count=1), "says 1 layers but more follow: ReLU"),
    (net("Input i 0 1 a", "Noop n 1 1 a b", "ReLU r 1 1 a c", layer_count=1), "more follow: ReLU"),
    (net("Input i 0 1 a") + "\nrubbish", "what follows layer 1, the last by the header"),
    (net("Input i 0"), "number of outputs of layer 1"),
    (net("Input i 0 x a"), "not a whole number"),
    (net("Input i 0 900000000 a"), "more than the file can hold"),
    (net("Input i -1 1 a"), "negative"),
    (net("Input input 0 3 a bbbbb"), "output of layer 'input'"),
    (net("Input " + "n" * 256 + " 0 1 a"), "longer than 255"),
    (net("Input i 0 1 a\0b"), "zero byte"),
    (net(f"{LAYER} 0= 1=2"), "has no value"),
    (net(f"{LAYER} 32=1"), "out of range"),
    (net(f"{LAYER} -1=1"), "out of range"),
    (net(f"{LAYER} -23332=1,1"), "out of range"),
    (net(f"{LAYER} 0=1x"), "not a finite number"),
    (net(f"{LAYER} 0=-nan"), "not a finite number"),
    (net(f"{LAYER} 0=-inf"), "not a finite number"),
    (net(f"{LAYER} 0=1e999"), "does not fit into a float"),
    (net(f"{LAYER} 0=4e38"), "does not fit into a float"),
    (net(f"{LAYER} 0=5000000000"), "does not fit into 32 bits"),
    (net(f"{LAYER} 0=0.{'1' * 63}"), "not a finite number"),
    (net(f"{LAYER} -23300=3,1,2"), "says 3 elements and has 2"),
    (net(f"{LAYER} -23300=1,1,2"), "says 1 elements and has 2"),
    (net(f"{LAYER} -23300=2000000000,1"), "says 2000000000 elements"),
    (net(f"{LAYER} -23300=2,1,nan"), "not a finite number"),
    (net(f"{LAYER} -23300=2,1,"), "not a finite number"),
    (net(f"{LAYER} -23300=x"), "not a whole number"),
    (net(f"{LAYER} 0=1,,2"), "not a finite number"),
    (net(f'{LAYER} 6="{"a" * 256}"'), "longer than 255"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        parse_param(text.encode(), "some.param")
    assert caught.value.file == "some.param"
    assert caught.value.offset is not None
    assert "some.param" in str(caught.value)
    assert "byte" in str(caught.value)


def test_an_error_names_the_layer() -> None:
    with pytest.raises(ModelFormatError, match="layer 'relu'") as caught:
        parse_param(net(f"{LAYER} 0=oops,1 1=1e999").encode())
    assert caught.value.layer == "relu"
