"""Converters of operators by family; a module registers its operators when it is imported.

All versions of an operator are registered by one module.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from vknn.formats.onnx import registry
from vknn.formats.onnx.registry import Name, OperatorVersion

#: Where the operators of most networks are: their modules alone are imported for them, as importing
#: all takes longer than reading a network. An operator that is not here is looked for in these
#: modules first, then in the others.
_COMMON = {
    "convolution": ("Conv", "ConvTranspose"),
    "elementwise.unary": (
        "Abs", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
        "LeakyRelu", "Log", "Neg", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh",
    ),
    "elementwise.arithmetic": ("Add", "Clip", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub"),
    "movement.shape": ("Expand", "Flatten", "Reshape", "Shape", "Squeeze", "Tile",
                       "Transpose", "Unsqueeze"),
    "movement.slices": ("Concat", "DepthToSpace", "Pad", "Slice", "Split"),
    "pooling": ("AveragePool", "GlobalAveragePool", "MaxPool"),
    "normalization": ("BatchNormalization", "InstanceNormalization", "LRN", "LayerNormalization",
                      "Softmax"),
    "movement.made": ("Constant", "ConstantOfShape", "Range"),
    "indexing.gather": ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"),
    "matmul": ("Gemm", "MatMul"),
    "reduction": ("ReduceMax", "ReduceMean", "ReduceSum"),
    "casting": ("Cast",),
    "random": ("Dropout",),
    "elementwise.logic": ("Equal", "Greater", "Less", "Where"),
    "sampling.resize": ("Resize", "Upsample"),
    "quantized.linear": ("DequantizeLinear", "QuantizeLinear"),
}  # fmt: skip
#: The module of each of those operators.
HOMES = {name: family for family, names in _COMMON.items() for name in names}
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
    for family in _families():
        _import(family)
    return registry.operator_types()


@functools.cache
def _families() -> tuple[str, ...]:
    """The modules of converters, those of common operators first."""
    paths = pkgutil.walk_packages(__path__, f"{__name__}.")
    every = {module.name.removeprefix(f"{__name__}.") for module in paths}
    return (*_COMMON, *sorted(every - set(_COMMON)))


def _import_for(domain: str, name: str) -> None:
    """Imports of modules until one has registered the operator."""
    if not domain and name in HOMES:
        _import(HOMES[name])
    if (domain, name) in _known:
        return
    for family in _families():
        _import(family)
        if (domain, name) in _known:
            return


def _import(family: str) -> None:
    if family not in _imported:
        importlib.import_module(f"{__name__}.{family}")
        _known.update(registry.operator_types())
        _imported.add(family)
