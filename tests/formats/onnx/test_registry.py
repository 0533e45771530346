"""The table of operators: versions as ONNX's schemas have them, and which of them counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vknn.formats.onnx import layers
from vknn.formats.onnx.layers import operator_type, operator_types, versions_of
from vknn.formats.onnx.registry import operator


def _catalogue(shared: Path) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    path = shared / "catalog" / "onnx.yaml"
    if not path.exists():
        pytest.skip("no ../shared/catalog/onnx.yaml")
    return dict(yaml.safe_load(path.read_text()))


def test_the_newest_version_not_above_the_opset_counts() -> None:
    for opset, version in ((1, 1), (10, 1), (11, 11), (12, 11), (13, 13), (28, 13)):
        found = operator_type("", "Softmax", opset)
        assert found is not None and found.version == version
    assert operator_type("", "Gelu", 19) is None
    assert operator_type("", "Gelu", 20) is not None
    assert operator_type("com.microsoft", "FusedConv", 1) is not None
    assert operator_type("", "FusedConv", 1) is None


def test_versions_are_registered_once() -> None:
    with pytest.raises(ValueError, match="has version 13 already"):
        operator("Softmax", 13)(lambda c: c.x)
    with pytest.raises(ValueError, match="ascending"):
        operator("Other", 13, 1)
    assert versions_of("", "Other") == ()


def test_common_operators_are_in_the_modules_that_are_imported_for_them() -> None:
    for name, family in layers.HOMES.items():
        modules = {v.convert.__module__ for v in operator_types()["", name].values()}
        assert modules == {f"vknn.formats.onnx.layers.{family}"}, name


#: Versions from before an operator was more than an experiment, which schemas do not list.
EXPERIMENTS = {"ThresholdedRelu": {1}, "MeanVarianceNormalization": {1}, "LayerNormalization": {1}}
#: Experiments that never came into the schemas, but into files of PyTorch's.
UNLISTED = {"ConstantFill"}


def test_all_versions_of_the_schemas(shared: Path) -> None:
    schemas = _catalogue(shared)["operators"]
    retired = set(
        _catalogue(shared)["legacy_operators (default domain, not in the schemas any more)"]
    )
    for (domain, name), versions in operator_types().items():
        if domain or name in retired | UNLISTED:
            continue
        assert name in schemas, name
        wanted = set(schemas[name]["versions"])
        known = {v for v in versions if v <= 28} - EXPERIMENTS.get(name, set())
        assert known <= wanted, f"{name}: {sorted(known - wanted)} are no versions of it"
        first = min(known)
        missing = {v for v in wanted if v > first} - known
        assert not missing, f"{name}: versions {sorted(missing)} are not registered"


def test_one_module_has_all_versions_of_an_operator() -> None:
    """Modules are imported until one has the operator: others would come too late."""
    for name, versions in operator_types().items():
        assert len({type_.convert.__module__ for type_ in versions.values()}) == 1, name


_INTERRUPTED = """
import sys
from vknn.formats.onnx import layers, registry

class Interrupted(registry.OperatorVersion):
    def __init__(self, name, *rest):
        if name == "Resize" and rest[5] == 18:  # of 10, 11, 13, 18 and 19
            raise KeyboardInterrupt
        super().__init__(name, *rest)

whole, registry.OperatorVersion = registry.OperatorVersion, Interrupted
try:
    layers.versions_of("", "Resize")
except KeyboardInterrupt:
    registry.OperatorVersion = whole
assert registry.OperatorVersion is whole, "not interrupted"
some = registry.versions_of("", "Resize")
assert some and 19 not in some, some
assert 19 in layers.versions_of("", "Resize"), layers.versions_of("", "Resize")
"""


def test_an_interrupted_import_is_done_once_more() -> None:
    """Some versions of an operator are not taken for all of them."""
    subprocess.run([sys.executable, "-c", _INTERRUPTED], check=True)
