"""Constants outside of the FlatBuffer: behind it, and in files beside the model."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tests.formats.tflite.nets import A, B, adding, adding_up, run, totals_operator
from tests.tflite_writer import Net, Table

from vknn.errors import ModelFormatError
from vknn.formats.tflite.loader import load
from vknn.session import Session

FILE = B.tobytes()


def behind(net: Net, table: Table, fields: tuple[str, str], raw: bytes, size: int = -1) -> bytes:
    """The file of ``net`` with ``raw`` behind it, where the ``fields`` of ``table`` say."""
    start, length = fields
    table.fields |= {start: 1 << 20, length: len(raw) if size < 0 else size}
    end = -len(net.file()) % 16 + len(net.file())
    table.fields[start] = end
    return net.file().ljust(end, b"\0") + raw


def with_buffer(raw: bytes, **fields: int) -> bytes:
    net = adding()
    net.buffers[1].fields.clear()
    found = behind(net, net.buffers[1], ("offset", "size"), raw)
    net.buffers[1].fields |= fields
    return net.file().ljust(len(found) - len(raw), b"\0") + raw


def beside(net: Net | None = None, **fields: Any) -> bytes:
    """The file of a + b, where b is the external buffer 7 of the file "weights.bin"."""
    net = net or adding()
    net.tensors[2].fields.pop("buffer", None)
    net.tensors[2].fields.setdefault("external_buffer", 7)
    given = {"id": 7, "group": 0, "offset": 4, "length": 12} | fields.pop("buffer", {})
    name = Table("ExternalBufferGroup", {"name": fields.pop("name", "weights.bin")})
    buffers = [Table("ExternalBuffer", given), *fields.pop("more", [])]
    return net.file(external_buffer_groups=[name], external_buffers=buffers)


def mapped(array: np.ndarray | None) -> bool:
    """Whether an array is a view of a file."""
    held: Any = array
    while isinstance(held, np.ndarray):
        held = held.base
    return isinstance(held, memoryview) and isinstance(held.obj, mmap.mmap)


def test_constants_are_views_of_the_file(save: Any) -> None:
    for data in (adding().file(), with_buffer(FILE)):
        path = save(data)
        constant = load(path).main.tensors[2].data
        assert mapped(constant)
        np.testing.assert_array_equal(constant, B)
        np.testing.assert_array_equal(run(path, a=A)["c"], A + B)


def test_a_buffer_at_an_odd_place(save: Any) -> None:
    """Arrays are aligned, so it is a copy."""
    data = with_buffer(b"\0" + FILE)
    net = adding()
    start = len(data) - len(FILE)
    net.buffers[1].fields = {"offset": start, "size": len(FILE)}
    path = save(net.file().ljust(start, b"\0") + FILE)
    constant = load(path).main.tensors[2].data
    assert constant is not None and constant.flags.aligned
    np.testing.assert_array_equal(run(path, a=A)["c"], A + B)


def test_a_file_of_five_gigabytes(save: Any) -> None:
    """It is mapped, not read: all but its ends are holes."""
    net, start = adding(), 5 << 30
    net.buffers[1].fields = {"offset": start, "size": len(FILE)}
    path = save(net.file())
    with path.open("r+b") as file:
        file.seek(start)
        file.write(FILE)
    np.testing.assert_array_equal(run(path, a=A)["c"], A + B)
    path.unlink()


@pytest.mark.parametrize("offset", [0, 1])
def test_offsets_that_stand_for_none(offset: int, save: Any) -> None:
    net = adding()
    net.buffers[1].fields |= {"offset": offset, "size": 1 << 40}
    np.testing.assert_array_equal(run(save(net.file()), a=A)["c"], A + B)


def test_data_inside_come_before_those_outside(save: Any) -> None:
    net = adding()
    net.buffers[1].fields |= {"offset": 64, "size": 12}
    np.testing.assert_array_equal(run(save(net.file()), a=A)["c"], A + B)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 13}, "outside the file"),
        ({"size": (1 << 64) - 1}, "outside the file"),
        ({"offset": (1 << 64) - 8}, "outside the file"),
        ({"size": 8}, "needs 12 bytes, its buffer has 8"),
        ({"size": 0}, "no value"),
    ],
)
def test_buffers_that_lie_elsewhere(fields: dict[str, int], message: str, save: Any) -> None:
    with pytest.raises(ModelFormatError, match=message):
        run(save(with_buffer(FILE, **fields)), a=A)


def test_options_of_custom_operators(save: Any) -> None:
    fields = ("large_custom_options_offset", "large_custom_options_size")
    x, raw = np.float32([1, 2]), bytes(flexbuffers.Dumps({"by": 3.0}))
    net = adding_up(0.0)
    del net.operators[0].fields["custom_options"]
    with totals_operator():
        path = save(behind(net, net.operators[0], fields, raw))
        np.testing.assert_array_equal(run(path, x=x)["y"], 3 * x)
        path = save(behind(net, net.operators[0], fields, raw, size=len(raw) + 1))
        with pytest.raises(ModelFormatError, match="TestTotals.*its options lies outside"):
            run(path, x=x)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"1234" + FILE + b"56")
    return path


def test_files_beside_the_model(save: Any, weights: Path) -> None:
    path = save(beside())
    constant = load(path).main.tensors[2].data
    assert mapped(constant)
    np.testing.assert_array_equal(run(path, a=A)["c"], A + B)


def test_packed_integers_beside_the_model(save: Any, weights: Path) -> None:
    net = Net()
    net.inputs, net.outputs = [], [net.tensor("y", (1, 7))]
    net.tensor("unused")
    w = net.tensor("w", (1, 7), "int4", external_buffer=7)
    net.add("CAST", [w], net.outputs, {})
    weights.write_bytes(bytes([0x00, 0x21, 0x87, 0xF9, 0x03]))
    path = save(beside(net, buffer={"offset": 1, "length": 4}))
    np.testing.assert_array_equal(run(path)["y"], [[1, 2, 7, -8, -7, -1, 3]])
    with pytest.raises(ModelFormatError, match="needs 4 bytes, its buffer has 3"):
        run(save(beside(net, buffer={"offset": 1, "length": 3})))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "../weights.bin"}, "leads out of the model's folder"),
        ({"name": "link.bin"}, "leads out of the model's folder"),
        ({"name": "a/../../weights.bin"}, "leads out of the model's folder"),
        ({"name": "/etc/passwd"}, "is absolute"),
        ({"name": "C:\\weights.bin"}, "is absolute"),
        ({"name": ""}, "no location"),
        ({"name": "missing.bin"}, "'missing.bin' cannot be read: No such file.*beside the model"),
        ({"name": "folder"}, "no ordinary file"),
        ({"name": "pipe"}, "no ordinary file"),
        ({"name": "empty.bin"}, "do not lie inside 'empty.bin', which has 0"),
        ({"buffer": {"packing": "zipped"}}, "packing 'zipped'"),
        ({"buffer": {"id": 8}}, "external buffer 7, which is not there"),
        ({"buffer": {"id": 0}}, "has the id 0"),
        ({"buffer": {"group": 1}}, "names group 1 of 1"),
        ({"buffer": {"offset": 7}}, "12 bytes at 7 do not lie inside"),
        ({"buffer": {"length": (1 << 64) - 1}}, "do not lie inside"),
        ({"buffer": {"offset": (1 << 64) - 1}}, "do not lie inside"),
        ({"buffer": {"length": 8}}, "needs 12 bytes, its buffer has 8"),
        ({"buffer": {"length": 0}}, "external buffer without bytes"),
        ({"more": [Table("ExternalBuffer", {"id": 7})]}, "the id 7 once more"),
    ],
)
def test_what_is_refused(
    fields: dict[str, Any], message: str, save: Any, weights: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    other = outside / "weights.bin"
    other.write_bytes(weights.read_bytes())
    folder = tmp_path / "inside"
    (folder / "folder").mkdir(parents=True)
    (folder / "a").mkdir()
    (folder / "weights.bin").write_bytes(weights.read_bytes())
    (folder / "empty.bin").touch()
    (folder / "link.bin").symlink_to(other)
    os.mkfifo(folder / "pipe")
    path = folder / "model.tflite"
    path.write_bytes(beside(**fields))
    with pytest.raises(ModelFormatError, match=message) as caught:
        run(path, a=A)
    assert str(path) in str(caught.value)


def test_a_tensor_with_two_values(save: Any, weights: Path) -> None:
    net = adding()
    net.tensors[2].fields["external_buffer"] = 7
    groups = [Table("ExternalBufferGroup", {"name": "weights.bin"})]
    buffers = [Table("ExternalBuffer", {"id": 7, "offset": 4, "length": 12})]
    both = net.file(external_buffer_groups=groups, external_buffers=buffers)
    with pytest.raises(ModelFormatError, match="has buffer 1 and an external buffer"):
        run(save(both), a=A)


def test_a_model_in_memory(save: Any, weights: Path) -> None:
    with pytest.raises(ModelFormatError, match="model in memory cannot have: open the model by"):
        Session(beside(), device="numpy")
