"""Operators between DequantizeLinear and QuantizeLinear computed on the integers themselves.

Networks are quantized by such pairs around operators of floats. What lies between two of them
becomes an integer kernel (a convolution, a product, a normalization by channel), a table (functions
of one byte), or an operator that moves bytes. Results may differ by one step where a float lies
within rounding of a half; sums are exact instead of rounded.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from vknn.graph import DType, Graph, Node, Op, Origin, Value
from vknn.ops.elementwise import Clip, Relu
from vknn.ops.elementwise.binary import Binary
from vknn.ops.elementwise.unary import Unary
from vknn.ops.movement.rearrange import DepthToSpace, SpaceToDepth
from vknn.ops.movement.shape import Concat, Identity, Pad, Reshape, Slice, Transpose
from vknn.ops.pooling.pool import MaxPool
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.fixed_point import FAR
from vknn.ops.quantized.linear import QuantizeLinear
from vknn.ops.sampling.resize import Resize
from vknn.passes.integer_kernels import (
    BYTES,
    KERNELS,
    QuantizedTarget,
    StoredIntegers,
    stored_integers,
    whole_constant,
)
from vknn.passes.patterns import scalar_constant
from vknn.passes.rewriter import Rewriter, merged, sweep

#: Ops that move elements of their one input, or take the largest.
_MOVERS = (Transpose, Reshape, Slice, Identity, MaxPool, Concat, DepthToSpace, SpaceToDepth)
#: Ops of a chain that becomes a table, at most.
_LONGEST = 8


def compute_on_integers(graph: Graph) -> Graph:
    """Integer kernels, tables and moved bytes for what lies between two quantized tensors."""
    return sweep(graph, _fold, (QuantizeLinear,))


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    target = _target(node)
    if target is None:
        return None
    value = node.inputs[0]
    origins = [node.origin]
    base = rewriter.sole_producer(value)
    while base is not None and isinstance(base.op, Relu | Clip):
        held = _held(base.op, target)
        before = rewriter.sole_producer(base.inputs[0])
        if held is None or before is None or type(before.op) not in KERNELS:
            break
        target, base = held, before
        origins.insert(0, base.origin)
    if base is not None:
        origin = merged(base.origin, *origins)
        kernel = KERNELS.get(type(base.op))
        found = kernel(rewriter, base, target) if kernel is not None else None
        mover = _mover(base, target) if found is None else None
        if mover is not None:
            moved = _moved(rewriter, base, mover, target, origin)
            if moved is not None:
                return (moved,)
        if found is not None:
            op, inputs = found
            return rewriter.emit(op, inputs, origin, node)
    return _table(rewriter, node, target)


def _target(node: Node) -> QuantizedTarget | None:
    """What a QuantizeLinear of one known scale gives; None for any other node."""
    op = node.op
    if not isinstance(op, QuantizeLinear) or op.multiply or op.rounding != "half_even":
        return None
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    scale, zero = scalar_constant(node.inputs[1]), whole_constant(zero_point)
    if scale is None or not 0 < scale < float("inf") or zero is None or op.dtype not in BYTES:
        return None
    return QuantizedTarget(scale, zero, op.low, op.high, op.dtype)


def _held(op: Op, target: QuantizedTarget) -> QuantizedTarget | None:
    """The target with the bounds that Relu or Clip sets: rounding keeps the order of numbers."""
    low, high = (0.0, float("inf")) if isinstance(op, Relu) else (op.min, op.max)  # type: ignore[attr-defined]
    scale = np.float32(target.scale)

    def step(bound: float, outermost: int) -> int:
        if not np.isfinite(bound):
            return outermost
        whole = int(np.clip(np.rint(np.float32(bound) / scale), -FAR, FAR)) + target.zero
        return min(max(whole, target.low), target.high)

    least, most = step(low, target.low), step(high, target.high)
    return dataclasses.replace(target, low=least, high=most) if least <= most else None


def _mover(node: Node, target: QuantizedTarget) -> Op | None:
    """The op that moves a target's integers as a node's moves floats; None where there is none."""
    op = node.op
    if isinstance(op, _MOVERS) or (isinstance(op, Resize) and op.mode == "nearest"):
        return op
    if not isinstance(op, Pad) or any(v is not None for v in node.inputs[1:]):
        return None
    if op.mode != "constant":
        return op
    if np.isnan(op.value):
        return None
    steps = np.rint(np.float32(op.value) / np.float32(target.scale))
    whole = int(np.clip(steps, -FAR, FAR)) + target.zero
    return dataclasses.replace(op, value=float(min(max(whole, target.low), target.high)))


def _moved(
    rewriter: Rewriter, node: Node, op: Op, target: QuantizedTarget, origin: Origin
) -> Value | None:
    """The bytes moved by ``op``, each input rescaled before where that has to be."""
    inputs = node.inputs[:1] if isinstance(op, Pad) else node.inputs
    sources = [stored_integers(rewriter, v) for v in inputs]
    if any(s is None for s in sources):
        return None
    values = [_rescaled(rewriter, s, target, origin) for s in sources if s is not None]
    (found,) = rewriter.emit(op, values, origin)
    return found


def _rescaled(
    rewriter: Rewriter, source: StoredIntegers, target: QuantizedTarget, origin: Origin
) -> Value:
    """The integers of a source as they stand for the same numbers in the target."""
    table = _results(source, target, [])
    info = np.iinfo(source.value.type.dtype.numpy)
    if np.array_equal(table, np.arange(info.min, info.max + 1)) and (
        source.value.type.dtype is target.dtype
    ):
        return source.value
    held = rewriter.constant(table, "table")
    (found,) = rewriter.emit(TableLookup(int(info.min)), (source.value, held), origin)
    return found


def _table(rewriter: Rewriter, node: Node, target: QuantizedTarget) -> tuple[Value, ...] | None:
    """Functions of each byte by itself, one after the other, looked up."""
    chain: list[Node] = []
    value = node.inputs[0]
    source = stored_integers(rewriter, value)
    while source is None and len(chain) < _LONGEST:
        before = rewriter.sole_producer(value)
        if before is None or not _is_pointwise(before):
            return None
        chain.insert(0, before)
        value = before.inputs[_open_input(before)]
        source = stored_integers(rewriter, value)
    if source is None or not source.value.type.is_static:
        return None
    if any(n.outputs[0].type.shape != source.value.type.shape for n in chain):
        return None
    origin = merged(source.origin, *(n.origin for n in chain), node.origin)
    if not chain:
        return (_rescaled(rewriter, source, target, origin),)
    info = np.iinfo(source.value.type.dtype.numpy)
    held = rewriter.constant(_results(source, target, chain), f"{node.name}.table")
    return rewriter.emit(TableLookup(int(info.min)), (source.value, held), origin, node)


def _is_pointwise(node: Node) -> bool:
    """Whether each element of the result depends on one of the one input that is no constant."""
    if not isinstance(node.op, Unary | Binary) or len(node.outputs) != 1:
        return False
    if node.outputs[0].type.dtype is not DType.FLOAT32:
        return False
    others = [v for v in node.inputs if v is not None and v.constant is not None]
    return len(others) == len(node.inputs) - 1 and all(v.type.size == 1 for v in others)


def _open_input(node: Node) -> int:
    return next(i for i, v in enumerate(node.inputs) if v is not None and v.constant is None)


def _results(source: StoredIntegers, target: QuantizedTarget, chain: list[Node]) -> np.ndarray:
    """The result for each integer of the source's type, in order."""
    info = np.iinfo(source.value.type.dtype.numpy)
    whole = np.arange(info.min, info.max + 1) - source.zero
    real = (whole * np.float64(np.float32(source.scale))).astype(np.float32)
    with np.errstate(all="ignore"):
        for node in chain:
            at = _open_input(node)
            arrays = [v.constant if v is not None else None for v in node.inputs]
            arrays = [real if i == at else _flat(a) for i, a in enumerate(arrays)]
            real = node.op.reference(*arrays)[0]
    op = QuantizeLinear(target.dtype, target.low, target.high, axis=0)
    zero = np.asarray(target.zero, np.int32)
    return op.reference(real, np.asarray(target.scale, np.float32), zero)[0]


def _flat(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else array.reshape(())
