"""Converters of operators by family; a module registers its operators when it is imported.

All versions of an operator are registered by one module.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from vknn.formats.onnx import registry
from vknn.formats.onnx.registry import Name, OperatorVersion

#: Modules with the operators of most networks, imported first. The others are imported when an
#: operator is asked for that these lack: importing all of them takes longer than reading a network.
_FIRST = (
    "convolution", "elementwise.arithmetic", "elementwise.unary", "movement.shape",
    "movement.slices", "pooling", "normalization", "movement.made", "sampling.resize", "matmul",
    "reduction", "casting", "indexing.gather", "elementwise.logic",
)  # fmt: skip
_PATHS = pkgutil.walk_packages(__path__, f"{__name__}.")
_ALL = (module.name.removeprefix(f"{__name__}.") for module in _PATHS)
_FAMILIES = (*_FIRST, *sorted(set(_ALL) - set(_FIRST)))
#: Those that are imported to their end, and the operators of these: one whose import was
#: interrupted may have registered some versions of an operator, and is imported once more.
_imported: set[str] = set()
_known: set[Name] = set()


def operator_type(domain: str, name: str, opset: int) -> OperatorVersion | None:
    """Meaning of an operator in a model that imports ``opset``; None where vknn has it not."""
    _import_for(domain, name)
    return registry.operator_type(domain, name, opset)


def versions_of(domain: str, name: str) -> tuple[int, ...]:
    """The versions of an operator that vknn has, ascending; none of an unknown one."""
    _import_for(domain, name)
    return registry.versions_of(domain, name)


def operator_types() -> Mapping[Name, Mapping[int, OperatorVersion]]:
    """All operators, by domain and name, then version."""
    for family in _FAMILIES:
        _import(family)
    return registry.operator_types()


def _import_for(domain: str, name: str) -> None:
    """Imports of modules until one has registered the operator."""
    for family in _FAMILIES:
        if (domain, name) in _known:
            return
        _import(family)


def _import(family: str) -> None:
    if family not in _imported:
        importlib.import_module(f"{__name__}.{family}")
        _known.update(registry.operator_types())
        _imported.add(family)
