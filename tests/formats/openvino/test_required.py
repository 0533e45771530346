"""Layers without an attribute that they must have are refused when the net is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.openvino_writer import Net
from tools.openvino_examples import layers

from vknn.errors import ModelFormatError
from vknn.formats.openvino import layers as _layers  # noqa: F401 (registers the layers)
from vknn.formats.openvino.reader import parse_net
from vknn.formats.openvino.registry import layer_type, layer_types
from vknn.formats.openvino.required import missing_attributes, required_attributes
from vknn.formats.openvino.validation import check_layers
from vknn.session import Session

CASES = [(name, spellings) for name in layer_types() for spellings in required_attributes(name)]


def net(name: str, attributes: dict[str, int]) -> Net:
    """A net with a layer that has no more than these attributes."""
    made, found = Net(), layer_type(name)
    assert found is not None
    ports = [made.input(f"x{number}", (1, 2, 3)) for number in range(found.inputs[0])]
    made.layer(name, ports, [(1, 2, 3)] * max(found.outputs[0], 1), attributes, name="y")
    return made


def complete(name: str) -> dict[str, int]:
    """All required attributes of a layer, in their first spelling."""
    return {spellings.split("|")[0]: 1 for spellings in required_attributes(name)}


@pytest.mark.parametrize("name, spellings", CASES, ids=[f"{n} {s[:12]}" for n, s in CASES])
def test_one_is_missing(name: str, spellings: str, tmp_path: Path) -> None:
    first = spellings.split("|")[0]
    attributes = {key: value for key, value in complete(name).items() if key != first}
    path = net(name, attributes).save(tmp_path)
    with pytest.raises(ModelFormatError, match=rf"layer 'y': {name} has no {first}, which"):
        Session(path, device="numpy")
    for spelling in spellings.split("|"):
        path = net(name, attributes | {spelling: 1}).save(tmp_path)
        check_layers(parse_net(path.read_bytes()))


def test_several_are_missing(tmp_path: Path) -> None:
    """The type's name may be written otherwise."""
    with pytest.raises(ModelFormatError, match="clamp has no min and no max, which it must have"):
        Session(net("clamp", {}).save(tmp_path), device="numpy")


def test_the_table_is_of_the_notation() -> None:
    """Its layers and attributes are the notation's, in its spelling."""
    notation = layers()
    assert len(CASES) > 60
    for name, spellings in CASES:
        assert spellings.split("|")[0] in notation[name], name


def test_ports_instead_of_attributes() -> None:
    """Pads are attributes, or inputs as in later versions of the format."""
    assert missing_attributes("Pad", {}, 1) == ["pads_begin", "pads_end"]
    assert missing_attributes("Pad", {}, 2) == ["pads_end"]
    assert missing_attributes("Pad", {}, 3) == []
    assert missing_attributes("Pad", {"pads_end": "1"}, 2) == []
