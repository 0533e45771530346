"""The generated code of ONNX's messages, and the table of signatures."""

from __future__ import annotations

import pytest
from tools import onnx_signatures
from tools.onnx_schema import SCHEMA
from tools.protobuf_code import usable_protoc

from vknn.formats.onnx.layers import operator_types
from vknn.formats.onnx.signatures import signature


@pytest.mark.skipif(not usable_protoc(), reason="no protoc 3.20 or 21")
def test_the_generated_code_is_up_to_date() -> None:
    assert SCHEMA.code.read_text() == SCHEMA.generated()


def test_the_signatures_are_up_to_date() -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    written = onnx_signatures.PAGE.read_text()
    made = onnx_signatures.text()
    if made.partition("\n")[0] != written.partition("\n")[0]:
        pytest.skip("other versions of onnx and onnxruntime are installed")
    assert made == written


def test_all_operators_have_signatures() -> None:
    """But for retired ones that nobody describes, in all versions, which take what they say."""
    missing = set()
    for (domain, name), versions in operator_types().items():
        for version, known in versions.items():
            found = signature(f"{domain}::{name}" if domain else name, version)
            if found is None:
                missing.add(name)
                continue
            many = bool(found.inputs) and found.inputs[-1].many
            assert many or known.inputs[0] <= max(len(found.inputs), 1), (name, version)
    assert missing <= {"ConstantFill", "GRUUnit", "GivenTensorFill"}
