"""Examples of operators that need several: regions, loops, variables, tables, small weights."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.tflite_writer import Net, Table  # noqa: E402

from vknn.graph import DType  # noqa: E402

#: A tensor that is fed or made: shape, element type, scale where it is quantized.
Typed = tuple[Any, ...]
#: Operator, element type, net, the arrays that it is fed.
Made = tuple[str, str, Net, dict[str, np.ndarray]]

_RESOURCE = 13  # the number of the element type in the schema
_F: Typed = ((3,), "float32")
_STRING = "string"


def add(net: Net, name: str, tensor: Typed | np.ndarray) -> int:
    """Index of a tensor that is added, an array as a constant."""
    if isinstance(tensor, np.ndarray):
        return net.tensor(name, tensor.shape, tensor.dtype.name, data=tensor)
    shape, dtype, *scale = tensor
    return net.tensor(name, shape, dtype, scale=scale[0] if scale else None)


def ones(tensor: Typed) -> np.ndarray:
    """Ones for a tensor that is fed."""
    shape, dtype = tensor[:2]
    if dtype == _STRING:
        return np.full(shape, b"a", object)
    held = {"int4": "int8", "int2": "int8", "uint4": "uint8"}.get(dtype, dtype)
    return np.ones(shape, DType(held).numpy)


def _with_weights() -> Iterator[Made]:
    """Products of floats with weights of 4 and 2 bits."""
    for name, kinds, shape, x, y in (
        ("FULLY_CONNECTED", ("int4", "int2"), (2, 3), (1, 3), (1, 2)),
        ("EMBEDDING_LOOKUP", ("int4", "int2"), (3, 2), (3,), (3, 2)),
        ("CONV_2D", ("int4",), (1, 1, 1, 3), (1, 2, 2, 3), (1, 2, 2, 1)),
        ("DEPTHWISE_CONV_2D", ("int4",), (1, 1, 1, 3), (1, 2, 2, 3), (1, 2, 2, 3)),
    ):
        for kind in kinds:
            net = Net()
            weights = net.tensor("w", shape, kind, data=np.ones(shape, np.int8), scale=0.5)
            yield from _weighted(name, kind, net, weights, x, y)


def _weighted(
    name: str, kind: str, net: Net, weights: int, x: Sequence[int], y: Sequence[int]
) -> Iterator[Made]:
    whole = name == "DEPTHWISE_CONV_2D"  # which takes int4 beside int8 alone
    fed = "int32" if name == "EMBEDDING_LOOKUP" else "int8" if whole else "float32"
    scale = 0.5 if whole else None
    net.inputs = [net.tensor("x", x, fed, scale=scale)]
    net.outputs = [net.tensor("y", y, "int8" if whole else "float32", scale=scale)]
    steps = {"stride_h": 1, "stride_w": 1} if "CONV" in name else {}
    steps |= {"depth_multiplier": 1} if whole else {}
    net.add(name, [net.inputs[0], weights], net.outputs, steps or None)
    yield name, kind, net, {"x": np.ones(x, fed)}


def _region(net: Net, name: str, kind: str = "float32", made: str = "") -> int:
    """A subgraph of one operator on two scalars; its number."""
    inner = net.another()
    inner.inputs = [inner.tensor("a", (), kind), inner.tensor("b", (), kind)]
    inner.outputs = [inner.tensor("c", (), made or kind)]
    inner.add(name, inner.inputs, inner.outputs)
    return len(net.others)


def _of_region(name: str, region: tuple[str, str], tensors: Sequence[Typed], y: Typed,
               options: dict[str, Any], field: str) -> Made:  # fmt: skip
    net = Net()
    net.inputs = [add(net, f"x{i}", tensor) for i, tensor in enumerate(tensors)]
    net.outputs = [add(net, "y", y)]
    number = _region(net, region[0], made=region[1])
    net.add(name, net.inputs, net.outputs, options | {field: number})
    return name, "float32", net, {f"x{i}": ones(t) for i, t in enumerate(tensors)}


def with_regions() -> Iterator[Made]:
    yield from _with_weights()
    add, table, zero = ("STABLEHLO_ADD", ""), ((2, 3), "float32"), ((), "float32")
    body = "body_subgraph_index"
    yield _of_region("STABLEHLO_REDUCE", add, [table, zero], _F, {"dimensions": [0]}, body)
    windows = {"window_dimensions": [1, 2], "window_strides": [1, 1], "base_dilations": [1, 1],
               "window_dilations": [1, 1], "padding": [0, 0, 0, 0]}  # fmt: skip
    small = ((2, 2), "float32")
    yield _of_region("STABLEHLO_REDUCE_WINDOW", add, [table, zero], small, windows, body)
    places = {"update_window_dims": [], "inserted_window_dims": [0],
              "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}  # fmt: skip
    scattered = [_F, ((2, 1), "int32"), ((2,), "float32")]
    yield _of_region("STABLEHLO_SCATTER", add, scattered, _F, places,
                     "update_computation_subgraph_index")  # fmt: skip
    less = ("STABLEHLO_COMPARE", "bool")
    yield _of_region("STABLEHLO_SORT", less, [_F], _F, {"dimension": 0},
                     "comparator_subgraph_index")  # fmt: skip
    yield _composite()
    yield _case()
    yield _loop()


def _unary(net: Net, name: str) -> int:
    """A subgraph of one operator on a vector; its number."""
    inner = net.another()
    inner.inputs, inner.outputs = [add(inner, "a", _F)], [add(inner, "c", _F)]
    inner.add(name, inner.inputs, inner.outputs)
    return len(net.others)


def _composite() -> Made:
    net = Net()
    net.inputs, net.outputs = [add(net, "x0", _F)], [add(net, "y", _F)]
    options = {"name": "own.square", "decomposition_subgraph_index": _unary(net, "SQUARE")}
    net.add("STABLEHLO_COMPOSITE", net.inputs, net.outputs, options)
    return "STABLEHLO_COMPOSITE", "float32", net, {"x0": ones(_F)}


def _case() -> Made:
    net = Net()
    net.inputs = [add(net, "i", ((), "int32")), add(net, "x0", _F)]
    net.outputs = [add(net, "y", _F)]
    branches = [_unary(net, "EXP"), _unary(net, "NEG")]
    net.add("STABLEHLO_CASE", net.inputs, net.outputs, {"branch_subgraph_indices": branches})
    return "STABLEHLO_CASE", "float32", net, {"i": np.ones((), np.int32), "x0": ones(_F)}


def _loop() -> Made:
    """x plus itself until it is not below 5."""
    net, one = Net(), ((), "float32")
    net.inputs, net.outputs = [add(net, "x0", one)], [add(net, "y", one)]
    condition, body = net.another(), net.another()
    condition.inputs = [add(condition, "a", one)]
    condition.outputs = [add(condition, "c", ((), "bool"))]
    limit = add(condition, "limit", np.array(5, np.float32))
    condition.add("LESS", [condition.inputs[0], limit], condition.outputs)
    body.inputs, body.outputs = [add(body, "a", one)], [add(body, "c", one)]
    body.add("ADD", [body.inputs[0]] * 2, body.outputs)
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    net.add("STABLEHLO_WHILE", net.inputs, net.outputs, options)
    return "STABLEHLO_WHILE", "float32", net, {"x0": np.ones((), np.float32)}


def _handle(net: Net, name: str, options: dict[str, Any]) -> int:
    """A tensor for a variable or a table, and the operator that gives it."""
    net.tensors.append(Table("Tensor", {"name": f"handle{len(net.tensors)}", "type": _RESOURCE}))
    place = len(net.tensors) - 1
    net.add(name, [], [place], options)
    return place


def of_resources() -> Iterator[Made]:
    for name in ("VAR_HANDLE", "ASSIGN_VARIABLE", "READ_VARIABLE", "CALL_ONCE"):
        kind = "resource" if name in ("VAR_HANDLE", "CALL_ONCE") else "float32"
        net = first = Net()
        if name == "CALL_ONCE":
            first = net.another()
            net.add(name, [], [], {"init_subgraph_index": 1})
            value = add(first, "one", np.ones(3, np.float32))
        else:
            value = add(net, "x0", _F)
            net.inputs = [value]
        variable = {"shared_name": "v"}
        first.add("ASSIGN_VARIABLE", [_handle(first, "VAR_HANDLE", variable), value], [])
        read = add(net, "read", _F)
        net.add("READ_VARIABLE", [_handle(net, "VAR_HANDLE", variable)], [read])
        net.outputs = [read]
        yield name, kind, net, {"x0": ones(_F)} if net.inputs else {}
    for key, value_type in (("int64", _STRING), (_STRING, "int64")):
        for name in ("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"):
            kind = "resource" if name in ("HASHTABLE", "HASHTABLE_SIZE") else key
            yield name, kind, *_table(key, value_type, size=name == "HASHTABLE_SIZE")


def _table(key: str, value: str, size: bool) -> tuple[Net, dict[str, np.ndarray]]:
    """A table that is filled once, and looked up in or counted."""
    net = Net()
    first, numbers = net.another(), {_STRING: 5, "int64": 4}
    options = {"table_id": 1, "key_dtype": numbers[key], "value_dtype": numbers[value]}
    keys, values = (_two(first, name, dtype) for name, dtype in (("keys", key), ("values", value)))
    first.add("HASHTABLE_IMPORT", [_handle(first, "HASHTABLE", options), keys, values], [])
    net.add("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    found = _handle(net, "HASHTABLE", options)
    if size:
        net.outputs = [net.tensor("y", (1,), "int64")]
        net.add("HASHTABLE_SIZE", [found], net.outputs)
        return net, {}
    net.inputs = [net.tensor("x0", (2,), key), net.tensor("x1", (1,), value)]
    net.outputs = [net.tensor("y", (2,), value)]
    net.add("HASHTABLE_FIND", [found, *net.inputs], net.outputs)
    return net, {"x0": ones(((2,), key)), "x1": ones(((1,), value))}


def _two(net: Net, name: str, dtype: str) -> int:
    """A constant of two elements."""
    if dtype != _STRING:
        return net.tensor(name, (2,), dtype, data=np.arange(2))
    # Strings: their number, where each begins and where the last ends, then the bytes.
    raw = np.int32([2, 16, 17, 18]).tobytes() + b"ab"
    place = net.tensor(name, (2,), dtype)
    content = {"data": np.frombuffer(raw, np.uint8)}
    net.tensors[place].fields["buffer"] = net.buffer(Table("Buffer", content))
    return place
