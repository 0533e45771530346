"""Items, which names stand for while a graph is built: tensors, sequences of them, nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vknn.errors import ModelFormatError
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.records import GraphRecord
from vknn.formats.onnx.steps import Item, TensorList
from vknn.graph import TensorType, Value

#: Elements of a tensor that may be a shape or axes.
_MOST_SIZES = 64


def is_small(type_: TensorType) -> bool:
    """Whether a tensor may be a shape, axes or the like."""
    return type_.is_static and type_.dtype.is_integer and type_.size <= _MOST_SIZES


def tensors_of(items: Iterable[Item]) -> Iterable[Value]:
    """All tensors among what names stand for, those of sequences one by one."""
    for item in items:
        if isinstance(item, TensorList):
            yield from item.values
        elif item is not None:
            yield item


def renewed_item(item: Item, values: Mapping[Value, Value]) -> Item:
    """The same of the values that stand in place of its own."""
    if isinstance(item, TensorList):
        return TensorList(tuple(values[v] for v in item.values), item.dtype)
    return None if item is None else values[item]


def several(results: Item | Sequence[Item]) -> Sequence[Item]:
    """The result of a converter, one or several, as a sequence."""
    if results is None or isinstance(results, Value | TensorList):
        return (results,)
    return tuple(results)


def check_tensors(context: Context, items: Sequence[Item]) -> None:
    """A check that no input of a node is a sequence; else raises ModelFormatError."""
    for number, item in enumerate(items):
        context.require(not isinstance(item, TensorList), f"takes no sequence as input {number}")


def check_results(graph: GraphRecord, results: Mapping[str, Item], file: str | None) -> None:
    """Check: ModelFormatError where a node makes an output of another type than the file says."""
    for value in graph.outputs:
        made, declared = results.get(value.name), value.type
        if not isinstance(made, Value) or declared.kind != "tensor":
            continue
        if made.type.dtype is declared.dtype or declared.dtype is None:
            continue
        if any(value.name in node.outputs for node in graph.nodes):
            raise ModelFormatError(
                f"the file says that the output {value.name!r} is {declared.dtype.value}, what "
                f"makes it gives {made.type.dtype.value}; export the model again",
                file=file,
            )
