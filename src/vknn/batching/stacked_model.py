"""StackedModel: a model of several examples, made of a model of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vknn.batching.case import NotIndependentError
from vknn.batching.independence import stacked_graph
from vknn.formats.model import Model
from vknn.graph import Graph, TensorType

#: The one name in its inputs and results: all examples, in order.
_EXAMPLES = "examples"


class StackedModel(Model):
    """``count`` examples of a model in one run.

    A run takes :func:`joined` inputs of ``count`` examples, which have the same shapes and element
    types, and gives what :func:`parted` makes the results of each.

    Raises:
        NotIndependentError: The model has state, or the values of inputs decide its shapes.
    """

    def __init__(self, model: Model, count: int) -> None:
        if model.keeps_state or model.value_inputs:
            what = (
                "keeps state" if model.keeps_state else "has shapes that the data of inputs decide"
            )
            raise NotIndependentError(f"the model {what}")
        self._one, self.count = model, count
        self.file, self.inputs, self.outputs = model.file, model.inputs, model.outputs
        self.range_checked, self.host_outputs = model.range_checked, model.host_outputs
        self.layer_types = model.layer_types

    def complete(self, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs of all examples, [count, ...] each."""
        if _EXAMPLES not in feeds:  # completed before
            return feeds
        each = [self._one.complete(one) for one in feeds[_EXAMPLES]]
        return {name: np.stack([one[name] for one in each]) for name in each[0]}

    def results(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The results of all examples."""
        each = ({n: made[i] for n, made in arrays.items()} for i in range(self.count))
        return {_EXAMPLES: [self._one.results(one) for one in each]}

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`; raises NotIndependentError, too."""
        one = {name: type_.with_shape(type_.dims[1:]) for name, type_ in types.items()}
        return stacked_graph(self._one.build(one, values), self.count)

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """See :meth:`Model.encode`; without a copy where one example takes none."""
        given = [array[number, ...] for number in range(self.count)]
        made = [self._one.encode(name, one) for one in given]
        if array.flags.c_contiguous and all(map(_is_view, made, given)):
            return array.reshape(self.count, *made[0].shape)
        return np.stack(made)

    def decode(self, name: str, array: np.ndarray) -> list[Any]:
        """The values of an output, one for each example."""
        return [self._one.decode(name, array[number, ...]) for number in range(self.count)]

    def check_names(self, given: Mapping[str, object]) -> None:
        """See :meth:`Model.check_names`."""
        self._one.check_names(given)


def joined(examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Inputs of a :class:`StackedModel` of as many examples."""
    return {_EXAMPLES: examples}


def parted(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Results of each example, of those of a run of a :class:`StackedModel`."""
    return list(results[_EXAMPLES])


def _is_view(made: np.ndarray, given: np.ndarray) -> bool:
    """Whether an array is another one, but for its shape."""
    same = made.dtype == given.dtype and made.size == given.size
    return same and made.flags.c_contiguous and np.may_share_memory(made, given)
