"""Hash tables of integers and text, on the host: sorted keys, and the values beside them."""

from __future__ import annotations

import numpy as np

from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require


@attributes
class SortKeys(Op):
    """Sorted keys of a table without doubles, and the values beside them.

    Inputs keys and values of one shape; gives keys [n], ascending, and values [n]; n depends on
    data. Of keys that are equal the first counts.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        keys, values = arguments(self, inputs, 2)
        require(keys.shape == values.shape, f"SortKeys: keys {keys} for values {values}")
        return TensorType((None,), keys.dtype), TensorType((None,), values.dtype)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        keys, values = arguments(self, inputs, 2)
        found, first = np.unique(keys.reshape(-1), return_index=True)
        return found, values.reshape(-1)[first]


@attributes
class FindKeys(Op):
    """Value beside each key that is looked up; the default where the table does not have it.

    Inputs the table's keys [n], ascending, its values [n], keys to look up, and a default of one
    element; gives values in the shape of the third.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        keys, values, wanted, default = arguments(self, inputs, 4)
        require(keys.rank == 1 and keys.shape == values.shape, f"FindKeys: {keys} for {values}")
        require(keys.dtype is wanted.dtype, f"FindKeys: looks up {wanted} among {keys}")
        require(default.dtype is values.dtype, f"FindKeys: the default of {values} is {default}")
        require(default.size == 1, f"FindKeys: the default is {default}, not one element")
        return (wanted.with_dtype(values.dtype),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        keys, values, wanted, default = arguments(self, inputs, 4)
        found = np.full(wanted.shape, default.reshape(-1)[0], values.dtype)
        if keys.size:
            places = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
            there = np.asarray(keys[places] == wanted, bool)
            found[there] = values[places[there]]
        return (found,)
