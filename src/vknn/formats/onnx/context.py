"""Context of one operator's conversion: its inputs, attributes, and the scope that it stands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.formats.layer_context import MAX_RANK, LayerContext, NeedsData
from vknn.formats.onnx.node_attributes import NodeAttributeReader
from vknn.formats.onnx.records import GraphRecord, NodeRecord
from vknn.formats.onnx.steps import Item, NameScope, Steps, TensorList, body_steps
from vknn.graph import DType, GraphBuilder, Origin, Value
from vknn.ops.indexing.gather import Bounded


class Context(NodeAttributeReader, LayerContext):
    """One node that is being converted.

    ``items``: its inputs as they are; ``inputs``: those that are tensors. ``version``: the version
    of the operator that counts, ``opset``: the one that the model imports. ``draw``: gives the
    number of random draws so far, of those with a seed or of the others, and counts one more.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        node: NodeRecord,
        scope: NameScope,
        items: Sequence[Item],
        inputs: Sequence[Value | None],
        version: int,
        draw: Callable[[bool], Value],
    ) -> None:
        super().__init__(node.attributes, scope.attributes)
        self.builder, self.node, self.scope = builder, node, scope
        self.items, self.inputs, self.version = tuple(items), tuple(inputs), version
        self.draw = draw
        self._origin = Origin(scope.path + node.label, node.type)

    @property
    def origin(self) -> Origin:
        return self._origin

    @property
    def opset(self) -> int:
        """The version of the operator's domain that counts here."""
        return self.scope.imports.get(self.node.key[0], 1)

    # --- inputs and outputs -----------------------------------------------------------------------

    def item(self, number: int) -> Item:
        """The input ``number``, a tensor, a list of tensors, or None where it is left out."""
        return self.items[number] if number < len(self.items) else None

    def tensors(self, number: int) -> TensorList:
        """The input ``number``, which has to be a list of tensors. Raises Malformed."""
        found = self.item(number)
        if not isinstance(found, TensorList):
            self.fail(f"input {number} is no sequence")
        return found

    def wants(self, number: int) -> bool:
        """Whether the output ``number`` has a name, so that somebody may read it."""
        return number < len(self.node.outputs) and bool(self.node.outputs[number])

    def data(self, number: int) -> np.ndarray:
        """The data of an input that must be known while the graph is built. Raises NeedsData."""
        value, item = self.value(number), self.item(number)
        if value.constant is not None:
            return value.constant
        raise NeedsData(item if isinstance(item, Value) else value)

    def ints(self, number: int, what: str) -> list[int]:
        """The data of an integer input, flattened; errors call it ``what``. See :meth:`data`."""
        return self._ints(number, what, range(MAX_RANK + 1))

    def vector(self, number: int, what: str, scalar: bool = False) -> list[int]:
        """The data of an integer input of one axis, with ``scalar`` also of none."""
        return self._ints(number, what, (0, 1) if scalar else (1,))

    def _ints(self, number: int, what: str, ranks: Sequence[int]) -> list[int]:
        type_ = self.value(number).type
        self.require(type_.rank in ranks, f"{what} must have one axis, it is {type_}")
        array = self.data(number)
        self.require(array.dtype.kind in "iu", f"{what} must be integers, not {array.dtype}")
        return [int(v) for v in array.reshape(-1)]

    def number(self, number: int, what: str) -> Any:
        """The data of an input with one element, as a Python number. See :meth:`data`."""
        array = self.data(number)
        self.require(array.size == 1, f"{what} has {array.size} elements, not 1")
        return array.reshape(-1)[0].item()

    def indices(self, number: int, size: int | Sequence[int], from_end: bool = True) -> Value:
        """An input of indices as int32; one outside an axis of ``size`` is an error.

        ``size``: of the axis, or one for each number of the last axis. ``from_end``: negative ones
        count from the end. Constants are checked now, others when the model runs.
        """
        found = self.value(number)
        good = found.type.dtype in (DType.INT32, DType.INT64)
        self.require(good, f"has indices of type {found.type}")
        sizes = (size,) if isinstance(size, int) else tuple(size)
        low = tuple(-s if from_end else 0 for s in sizes)
        high = tuple(max(s - 1, -1) for s in sizes)
        if isinstance(size, int):
            found = self.add(Bounded(low[0], high[0]), found)
        elif found.type.size:
            found = self.add(Bounded(low, high), found)
        return self.cast(found, DType.INT32)

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        return self.x.type.rank

    # --- control flow -----------------------------------------------------------------------------

    def inlined(
        self, graph: GraphRecord, arguments: Sequence[Item], name: str, targets: Sequence[str] = ()
    ) -> Steps:
        """The steps of a subgraph, in place of this node.

        ``arguments``: for its inputs. ``name``: how its nodes' names begin, behind this node's.
        ``targets``: names for its outputs in this scope; by default those of the node's outputs.
        """
        scope = self.subscope(graph, name)
        return body_steps(graph, scope, arguments, self.scope, targets or self.node.outputs)

    def subscope(self, graph: GraphRecord, name: str) -> NameScope:
        """A new scope for the nodes of a subgraph of this node."""
        path = f"{self._origin.name}/{name}/"
        return NameScope(
            path, self.scope.imports, self.scope, graph.initializers, self.scope.attributes
        )
