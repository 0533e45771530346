"""The generated code of ONNX's messages, and the catalogue's operators against the registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.onnx_schema import SCHEMA
from tools.protobuf_code import usable_protoc

from vknn.formats.onnx import layers as _layers  # noqa: F401 (registers the operators)
from vknn.formats.onnx.registry import versions_of

#: Versions that are not reachable yet; the list may only become shorter.
MISSING = Path(__file__).resolve().parent / "missing_versions.txt"


@pytest.mark.skipif(not usable_protoc(), reason="no protoc 3.20 or 21")
def test_the_generated_code_is_up_to_date() -> None:
    assert SCHEMA.code.read_text() == SCHEMA.generated()


def test_every_version_of_the_catalogue(shared: Path) -> None:
    """All versions of all operators but those that are listed, and none that is listed is there."""
    yaml = pytest.importorskip("yaml")
    path = shared / "catalog" / "onnx.yaml"
    if not path.exists():
        pytest.skip("no ../shared/catalog/onnx.yaml")
    operators = yaml.safe_load(path.read_text(encoding="utf-8"))["operators"]
    missing = {
        f"{name} {version}"
        for name, entry in operators.items()
        for version in entry["versions"]
        if version not in versions_of("", name)
    }
    listed = set(MISSING.read_text(encoding="utf-8").splitlines())
    assert not missing - listed, "not reachable, and not listed"
    assert not listed - missing, "is there by now: take it off the list"
