"""Our descriptors of Core ML's messages, against those of Core ML's own tools."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import pytest
from tools.coreml_schema import SCHEMA
from tools.protobuf_code import usable_protoc

from vknn.formats.coreml import coreml_pb2 as pb

pytestmark = pytest.mark.long

#: Of ML programs, which vknn does not read.
LEFT_OUT = {"functions", "defaultFunctionName", "state", "stateType"}
BYTES, MESSAGE = 12, 11


def field(descriptor: Any) -> tuple[Any, ...]:
    """The properties of a field that must agree."""
    oneof = descriptor.containing_oneof
    repeated = getattr(descriptor, "is_repeated", None)
    if repeated is None:
        repeated = descriptor.label == descriptor.LABEL_REPEATED
    return descriptor.number, descriptor.type, repeated, oneof.name if oneof else None


def differences(ours: Any, theirs: Any, seen: set[str]) -> list[str]:
    """Differences between two messages and their inner messages."""
    if theirs.full_name in seen:
        return []
    seen.add(theirs.full_name)
    own = ours.fields_by_name
    names = {f.name for f in theirs.fields} - LEFT_OUT
    found = [f"{theirs.name}.{n} is not there" for n in names - set(own)]
    found += [f"{theirs.name}.{n} is not known" for n in set(own) - names - LEFT_OUT]
    for name in names & set(own):
        a, b = own[name], theirs.fields_by_name[name]
        opaque = a.type == BYTES and b.type == MESSAGE  # models of kinds that are not read
        wanted, given = field(b), field(a)
        if opaque:
            wanted = (wanted[0], BYTES, *wanted[2:])
        if given != wanted:
            found.append(f"{theirs.name}.{name}: {given}, not {wanted}")
        if b.enum_type is not None:
            numbers = [{v.name: v.number for v in e.enum_type.values} for e in (a, b)]
            found += [] if numbers[0] == numbers[1] else [f"{theirs.name}.{name}: {numbers}"]
        if b.message_type is not None and not opaque:
            found += differences(a.message_type, b.message_type, seen)
    return found


@pytest.mark.skipif(
    importlib.util.find_spec("coremltools") is None, reason="coremltools is not installed"
)
def test_fields_agree() -> None:
    logging.disable(logging.WARNING)  # it warns that it cannot run models here
    try:
        from coremltools.proto import Model_pb2
    finally:
        logging.disable(logging.NOTSET)
    seen: set[str] = set()
    assert differences(pb.Model.DESCRIPTOR, Model_pb2.Model.DESCRIPTOR, seen) == []
    assert len(seen) > 200


@pytest.mark.skipif(not usable_protoc(), reason="no protoc 3.20 or 21")
def test_the_generated_code_is_up_to_date() -> None:
    assert SCHEMA.code.read_text() == SCHEMA.generated()


def test_every_layer_of_the_catalogue(shared: Any) -> None:
    yaml = pytest.importorskip("yaml")
    path = shared / "catalog" / "coreml.yaml"
    if not path.exists():
        pytest.skip("no ../shared/catalog/coreml.yaml")
    layers = yaml.safe_load(path.read_text())["layers"]
    fields = pb.NeuralNetworkLayer.DESCRIPTOR.fields_by_name
    assert {e["name"]: e["tag"] for e in layers} == {
        n: f.number for n, f in fields.items() if f.containing_oneof is not None
    }
    for entry in layers:
        inner = fields[entry["name"]].message_type
        assert inner.name == entry["message"]
        own = {f.name: f.number for f in inner.fields}
        assert {n: f["number"] for n, f in entry["fields"].items() if "number" in f}.items() <= (
            own.items()
        ), entry["name"]
