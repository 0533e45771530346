"""Regions of scalars that are converted for whole tensors, element by element."""

from __future__ import annotations

from vknn.formats.layer_errors import Unsupported
from vknn.formats.tflite.records import SubgraphRecord
from vknn.formats.tflite.regions import strangers
from vknn.graph import GraphBuilder, Value
from vknn.ops.movement.shape import Expand


def lifted_constants(
    builder: GraphBuilder, region: SubgraphRecord, shape: tuple[int, ...]
) -> dict[int, Value]:
    """Constants that a region reads, by tensor index, repeated for tensors of ``shape``.

    Raises Unsupported for regions that cannot be computed element by element.
    """
    if others := strangers(region):
        raise Unsupported(f"the region of subgraph {region.index} with {', '.join(others)}")
    read = {i for o in region.operators for i in o.inputs if i != -1} | set(region.outputs)
    found: dict[int, Value] = {}
    for index in sorted(read):
        tensor = region.tensors[index]
        if tensor.data is None:
            continue
        if tensor.data.size != 1:
            kind = f"{tensor.data.dtype}{list(tensor.data.shape)}"
            raise Unsupported(f"the region of subgraph {region.index} with a constant {kind}")
        scalar = builder.constant(tensor.data.reshape(()), tensor.name or "constant")
        found[index] = builder.add(Expand(shape), scalar)
    return found
