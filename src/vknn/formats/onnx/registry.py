"""Table of operators: domain, name and version -> converter.

A converter is registered with the versions of the operator's schema that it is right for; ONNX
gives an operator a new version whenever its meaning, attributes or types change. A model imports a
version of a whole domain, and an operator means there what its newest version not above that says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from vknn.formats.layer_table import Count, LayerType, arity
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.steps import Item, Steps
from vknn.reimports import comes_again

__all__ = [
    "MICROSOFT", "Convert", "Name", "OperatorVersion", "Result", "operator", "operator_type",
    "operator_types", "split_name", "versions_of",
]  # fmt: skip

#: The domain of onnxruntime's own operators.
MICROSOFT = "com.microsoft"
#: The values of an operator's outputs, a single one for one with one output; converters of control
#: flow give the steps that stand in the node's place.
Result = Item | Sequence[Item] | Steps
Convert = Callable[[Context], Result]
Name = tuple[str, str]
F = TypeVar("F", bound=Callable[[Context], Any])


@dataclass(frozen=True)
class OperatorVersion(LayerType[Context]):
    """One version of an operator.

    ``any_type``: the converter takes all element types; for others bfloat16 becomes float32 before
    it and bfloat16 again behind it. ``like``: for operators that take floats of several types, the
    number of the input that has the type of the outputs, or one for each output; -1: the converter
    decides. None: any input of bfloat16 makes outputs of it. ``lists``: it takes lists of tensors,
    or values that may be absent, and not only tensors.
    """

    domain: str = ""
    version: int = 1
    any_type: bool = False
    lists: bool = False
    like: int | tuple[int, ...] | None = None


_TYPES: dict[Name, dict[int, OperatorVersion]] = {}


def operator(
    name: str,
    *versions: int,
    inputs: Count = 1,
    outputs: Count = 1,
    domain: str = "",
    any_type: bool = False,
    lists: bool = False,
    like: int | tuple[int, ...] | None = None,
) -> Callable[[F], F]:
    """Registration of a function as the converter of these versions of an operator.

    Args:
        name: The operator's, in ``domain``.
        versions: Those of its schema, oldest first: 1, 6 and 13 for one that changed in opsets 6
            and 13.
        inputs: How many there are, a number or (least, most) where most None means any number;
            those left out at the end count as not there.
        outputs: As ``inputs``.
        domain: "" for ONNX's own.
        any_type: See :class:`OperatorVersion`.
        lists: See :class:`OperatorVersion`.
        like: See :class:`OperatorVersion`.

    Raises:
        ValueError: A version is registered already, or there is none.
    """
    if not versions or list(versions) != sorted(set(versions)):
        raise ValueError(f"operator {name}: versions {versions} are not in ascending order")

    def register(convert: F) -> F:
        known = _TYPES.setdefault((domain, name), {})
        for version in versions:
            if version in known and not comes_again(known[version].convert, convert):
                raise ValueError(f"operator {name} has version {version} already")
            known[version] = OperatorVersion(
                name, convert, arity(inputs), arity(outputs), (),  # type: ignore[arg-type]
                domain, version, any_type, lists, like,
            )  # fmt: skip
        return convert

    return register


def operator_type(domain: str, name: str, opset: int) -> OperatorVersion | None:
    """Meaning of an operator in a model that imports ``opset``; None where vknn has it not."""
    versions = _TYPES.get((domain, name), {})
    newest = max((v for v in versions if v <= opset), default=None)
    return None if newest is None else versions[newest]


def versions_of(domain: str, name: str) -> tuple[int, ...]:
    """The versions of an operator that vknn has, ascending; none of an unknown one."""
    return tuple(sorted(_TYPES.get((domain, name), {})))


def operator_types() -> Mapping[Name, Mapping[int, OperatorVersion]]:
    """All operators, by domain and name, then version."""
    return _TYPES


def split_name(name: str) -> Name:
    """Domain and name of an operator that is written "domain::name", or "name" in ONNX's own."""
    domain, separator, own = name.rpartition("::")
    return (domain, own) if separator else ("", name)
