""".param.bin: read as the text form, and nothing but a VknnError comes out of a damaged one."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import SMALL, net, run, weights_for
from tests.formats.ncnn.test_fuzz import RICH, attempt

from vknn import formats
from vknn.cli import main
from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.identify import identify
from vknn.formats.ncnn.binary_reader import parse_param_bin
from vknn.formats.ncnn.layers import layer_type
from vknn.formats.ncnn.loader import default_weights
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.records import NetRecord
from vknn.formats.ncnn.type_indices import BUILTIN, type_index, type_named
from vknn.formats.ncnn.writer import blob_indices, format_bin, format_param, format_param_bin


def write_binary(folder: Path, text: str) -> Path:
    """The network of a .param as a .param.bin, with random weights."""
    record = parse_param(text.encode())
    path = folder / "net.param.bin"
    path.write_bytes(format_param_bin(record))
    (folder / "net.bin").write_bytes(format_bin(record, weights_for(text)))
    return path


def settled(record: NetRecord) -> list[object]:
    """Layers with their parameters as the layers read them, blobs by index."""
    indices = blob_indices(record)
    return [
        (
            layer.type,
            [indices[b] for b in layer.bottoms],
            [indices[b] for b in layer.tops],
            type_.params.read(layer),
        )
        for layer in record.layers
        if (type_ := layer_type(layer.type)) is not None
    ]


@pytest.mark.parametrize("text", [SMALL, RICH], ids=["small", "rich"])
def test_the_same_network_as_from_text(text: str) -> None:
    record = parse_param(text.encode())
    binary = parse_param_bin(format_param_bin(record))
    assert settled(binary) == settled(record)
    # Words become numbers again where the text form is written from them.
    assert settled(parse_param(format_param(binary).encode())) == settled(record)
    assert binary.layers[1].name == f"{record.layers[1].type}_1"


def test_real_files(shared: Path) -> None:
    for path in sorted(shared.glob("*/ncnn/*.param")):
        record = parse_param(path.read_bytes())
        if any(layer_type(layer.type) is None for layer in record.layers):
            continue
        assert settled(parse_param_bin(format_param_bin(record))) == settled(record), path.name


def test_expressions_are_strings() -> None:
    text = net("Input i 0 1 a", 'Reshape r 1 1 a b 6="0w,-1"', 'Crop c 1 1 b d 19="0" 20="2"')
    binary = parse_param_bin(format_param_bin(parse_param(text.encode())))
    assert binary.layers[1].params == {6: "0w,-1"}
    assert binary.layers[2].params == {19: "0", 20: "2"}


def test_runs_with_blobs_named_by_index(tmp_path: Path) -> None:
    text_path = tmp_path / "net.param"
    text_path.write_text(SMALL)
    path = write_binary(tmp_path, SMALL)
    x = np.random.default_rng(0).standard_normal((3, 8, 8)).astype(np.float32)
    assert [spec.name for spec in formats.load(path).inputs] == ["0"]
    assert [spec.name for spec in formats.load(path).outputs] == ["5", "6"]
    assert formats.load(path).shape_hints == {"0": (3, 8, 8)}
    expected, actual = run(text_path, {"data": x}), run(path, {"0": x})
    np.testing.assert_array_equal(actual["5"], expected["prob"])
    np.testing.assert_array_equal(actual["6"], expected["features"])


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_binary(tmp_path, SMALL)
    (tmp_path / "net.bin").unlink()
    assert main(["info", str(path), "--random-weights", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"][0]["name"] == "0"
    assert found["layers"]["Convolution"] == 1


def test_content_decides_not_the_suffix(tmp_path: Path) -> None:
    path = write_binary(tmp_path, SMALL)
    assert "param.bin" in identify(path.read_bytes())
    other = path.rename(tmp_path / "net.other")
    assert len(formats.load(other).inputs) == 1


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("a.param", "a.bin"),
        ("a.param.bin", "a.bin"),
        ("a.ncnn.param", "a.ncnn.bin"),
        ("a.ncnn.param.bin", "a.ncnn.bin"),
        ("a.bin", "a.bin.bin"),
    ],
)
def test_weights_beside_it(name: str, weights: str) -> None:
    assert default_weights(Path("x") / name) == Path("x") / weights


def test_numbers_of_types() -> None:
    assert len(BUILTIN) == 110
    assert type_index("AbsVal") == 0
    assert type_index("RotaryEmbed") == 109
    assert type_named(52) == "ShuffleChannel"
    assert type_named(110) is None
    assert type_named(256 + 3) == "Custom3"
    assert type_index("NoSuchType") is None


#: One Input layer whose output is blob 0, with parameter 0=8.
GOOD = [7767517, 1, 1, 16, 0, 1, 0, 0, 8, -233]


def packed(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}i", *words)


@pytest.mark.parametrize(
    ("words", "message", "offset"),
    [
        ([7767518, *GOOD[1:]], "does not start with 7767517", 0),
        ([7767517, 0, 1], "both must be positive", 4),
        ([7767517, 1, -1], "both must be positive", 4),
        ([7767517, 1 << 30, 1, *GOOD[3:]], "cannot stand in", 4),
        ([7767517, 1, 1 << 30, *GOOD[3:]], "absurd blob count", 8),
        ([7767517, 1, 1, 110, 0, 1, 0, -233], "no layer type 110", 12),
        ([7767517, 1, 1, -1, 0, 1, 0, -233], "no layer type -1", 12),
        ([7767517, 1, 1, 16, 0, 1, 1, -233], "no blob 1 among 1", 24),
        ([7767517, 1, 1, 16, 0, 1, -1, -233], "no blob -1 among 1", 24),
        ([7767517, 1, 1, 16, -1, 1, 0, -233], "negative or more", 16),
        ([7767517, 1, 1, 16, 0, 9999, 0, -233], "negative or more", 20),
        ([7767517, 1, 1, 16, 0, 1, 0, 32, 0, -233], "parameter id 32 is out of range", 28),
        ([7767517, 1, 1, 16, 0, 1, 0, -1, 0, -233], "parameter id -1 is out of range", 28),
        ([7767517, 1, 1, 16, 0, 1, 0, -23333, 0, -233], "-23333 is out of range", 28),
        ([7767517, 1, 1, 16, 0, 1, 0, -23432, 0, -233], "-23432 is out of range", 28),
        ([7767517, 1, 1, 16, 0, 1, 0, -23300, -1, -233], "-1 elements", 32),
        ([7767517, 1, 1, 16, 0, 1, 0, -23300, 1 << 29, -233], "elements", 32),
        ([7767517, 1, 1, 16, 0, 1, 0, -23406, 300, -233], "300 bytes", 32),
        ([7767517, 1, 1, 16, 0, 1, 0, -23406, -4, -233], "-4 bytes", 32),
        ([*GOOD, 5], "4 bytes follow the 1 layers", 40),
    ],
)
def test_damage_is_named(words: list[int], message: str, offset: int) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        parse_param_bin(packed(*words), "net.param.bin")
    assert caught.value.offset == offset
    assert "net.param.bin" in str(caught.value)


def test_cut_anywhere() -> None:
    data = format_param_bin(parse_param(SMALL.encode()))
    for size in range(len(data)):
        with pytest.raises(ModelFormatError):
            parse_param_bin(data[:size])


def test_a_parameter_that_is_no_number(tmp_path: Path) -> None:
    """The bits of a float parameter must be those of a finite number."""
    nan = struct.unpack("<i", struct.pack("<f", float("nan")))[0]
    path = tmp_path / "a.param.bin"
    path.write_bytes(packed(7767517, 2, 2, 16, 0, 1, 0, -233, 26, 1, 1, 0, 1, 0, nan, -233))
    with pytest.raises(ModelFormatError, match="not a finite number"):
        formats.load(path)


def test_a_custom_layer_that_nobody_registered(tmp_path: Path) -> None:
    path = tmp_path / "a.param.bin"
    path.write_bytes(packed(7767517, 2, 2, 16, 0, 1, 0, -233, 263, 1, 1, 0, 1, -233))
    with pytest.raises(UnsupportedLayerError, match="Custom7 'Custom7_1'"):
        formats.load(path)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_changed_words_and_bytes(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = write_binary(tmp_path, RICH)
    weights = tmp_path / "net.bin"
    weights.write_bytes(weights.read_bytes() + bytes(4096))
    original = path.read_bytes()
    odd = (-1, 0, 1, 2, 3, -233, -234, 1 << 30, -(1 << 31), 0x7FC00000, 0x7F800000, -23300, -23406)
    for _ in range(400):
        data = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.6:
                at = rng.randrange(3, len(data) // 4) * 4
                word = rng.choice([*odd, rng.randint(-5, 40), rng.getrandbits(31)])
                data[at : at + 4] = packed(word)
            else:
                data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(bytes(data))
        attempt(path, (4, 9, 9))
