"""The generated code of ONNX's messages."""

from __future__ import annotations

import pytest
from tools.onnx_schema import SCHEMA
from tools.protobuf_code import usable_protoc


@pytest.mark.skipif(not usable_protoc(), reason="no protoc 3.20 or 21")
def test_the_generated_code_is_up_to_date() -> None:
    assert SCHEMA.code.read_text() == SCHEMA.generated()
