"""Examples of tools/tflite_table.py that are made, not recorded: codes from 128 on, small types."""

from __future__ import annotations

import base64
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.tflite_writer import Net, Table  # noqa: E402
from tools.pages import described  # noqa: E402

from vknn.graph import DType  # noqa: E402

Example = dict[str, Any]
#: A tensor that is fed or made: shape, element type, scale where it is quantized.
Typed = tuple[Any, ...]
#: Operator, element type, inputs (arrays are constants), outputs, options.
Single = tuple[str, str, Sequence[Any], Sequence[Typed], dict[str, Any]]
#: Operator, element type, net, the arrays that it is fed.
Made = tuple[str, str, Net, dict[str, np.ndarray]]

_RESOURCE = 13  # the number of the element type in the schema
_F: Typed = ((3,), "float32")
_B: Typed = ((3,), "bool")
_I: Typed = ((3,), "int32")
_UNARY = ("LOGISTIC", "ABS", "COSINE", "EXPONENTIAL", "FLOOR", "LOG", "NEGATE", "RSQRT", "TANH",
          "CBRT")  # fmt: skip
_BINARY = ("ADD", "DIVIDE", "MULTIPLY", "MAXIMUM", "MINIMUM", "SUBTRACT", "POWER", "REMAINDER")
_OF_BITS = ("STABLEHLO_AND", "STABLEHLO_OR", "STABLEHLO_SHIFT_LEFT", "BITWISE_XOR", "RIGHT_SHIFT")
_CASTABLE = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32",
             "int64", "uint64", "bool", "complex64", "complex128", "bfloat16")  # fmt: skip
_STRING = "string"


def examples() -> dict[str, dict[str, Example]]:
    """Operator -> element type -> example, as tools/tflite_examples.py records them."""
    found: dict[str, dict[str, Example]] = {}
    singles = (*_arithmetic(), *_indexing(), *_shapes(), *_windows(), *_small_types())
    made = (*map(_net, singles), *_with_regions(), *_of_resources())
    for name, kind, net, feeds in made:
        packed = base64.b85encode(zlib.compress(net.file(), 9)).decode()
        inputs = {port: _given(array) for port, array in feeds.items()}
        found.setdefault(name, {})[kind] = {"model": packed, "inputs": inputs}
    return found


def _given(x: np.ndarray) -> dict[str, Any]:
    if x.dtype != object:
        return described(x, "iufb")
    return {"shape": list(x.shape), "dtype": "object", "values": ["a"] * x.size}


def _net(given: Single) -> Made:
    """A net of one operator, whose inputs are ones."""
    name, kind, inputs, outputs, options = given
    net = Net()
    places = [_add(net, f"x{i}", tensor) for i, tensor in enumerate(inputs)]
    net.inputs = [p for p, t in zip(places, inputs, strict=True) if isinstance(t, tuple)]
    net.outputs = [_add(net, f"y{i}", tensor) for i, tensor in enumerate(outputs)]
    net.add(name, places, net.outputs, options or None)
    feeds = {f"x{i}": _ones(t) for i, t in enumerate(inputs) if isinstance(t, tuple)}
    return name, kind, net, feeds


def _add(net: Net, name: str, tensor: Typed | np.ndarray) -> int:
    if isinstance(tensor, np.ndarray):
        return net.tensor(name, tensor.shape, tensor.dtype.name, data=tensor)
    shape, dtype, *scale = tensor
    return net.tensor(name, shape, dtype, scale=scale[0] if scale else None)


def _ones(tensor: Typed) -> np.ndarray:
    shape, dtype = tensor[:2]
    if dtype == _STRING:
        return np.full(shape, b"a", object)
    held = {"int4": "int8", "int2": "int8", "uint4": "uint8"}.get(dtype, dtype)
    return np.ones(shape, DType(held).numpy)


def _ints(*values: int, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


# --- operators of one subgraph --------------------------------------------------------------------


def _arithmetic() -> Iterator[Single]:
    for name in _UNARY:
        yield f"STABLEHLO_{name}", "float32", [_F], [_F], {}
    for name in _BINARY:
        yield f"STABLEHLO_{name}", "float32", [_F, _F], [_F], {}
    for name in _OF_BITS:
        yield name, "int32", [_I, _I], [_I], {}
    for name in ("STABLEHLO_AND", "STABLEHLO_OR"):
        yield name, "bool", [_B, _B], [_B], {}
    for name in ("GELU", "RELU_0_TO_1", "SIGN"):
        yield name, "float32", [_F], [_F], {}
    yield "ATAN2", "float32", [_F, _F], [_F], {}
    for kind, part in (("complex64", "float32"), ("complex128", "float64")):
        for name in ("REAL", "IMAG", "COMPLEX_ABS"):
            yield name, kind, [((3,), kind)], [((3,), part)], {}
    yield "STABLEHLO_CLAMP", "float32", [((), "float32"), _F, ((), "float32")], [_F], {}
    yield "STABLEHLO_SELECT", "float32", [_B, _F, _F], [_F], {}
    comparison = {"comparison_direction": 5}
    yield "STABLEHLO_COMPARE", "float32", [_F, _F], [_B], comparison
    yield "BUCKETIZE", "float32", [_F], [_I], {"boundaries": np.float32([0.5, 2])}
    yield "CUMSUM", "float32", [_F, _ints(0)], [_F], {}
    yield "REDUCE_ALL", "bool", [_B, _ints(0)], [((), "bool")], {}
    for kind in _CASTABLE:
        target = ((3,), "int32" if kind == "float32" else "float32")
        yield "STABLEHLO_CONVERT", kind, [((3,), kind)], [target], {}
        width = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
        shape = (3,) if width == 1 else (3, width)
        yield "BITCAST", kind, [((3,), kind)], [(shape, "uint8")], {}
    seeds = {"seed": 1, "seed2": 2}
    for name in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"):
        yield name, "float32", [_ints(3)], [_F], seeds
    logits = ((1, 3), "float32")
    yield "MULTINOMIAL", "float32", [logits, np.array(5, np.int32)], [((1, 5), "int32")], seeds
    for kind in ("int32", "uint32", "int64", "uint64"):
        yield ("STABLEHLO_RNG_BIT_GENERATOR", kind, [((2,), "uint64")],
               [((2,), "uint64"), ((3,), kind)], {"algorithm": 1})  # fmt: skip


def _indexing() -> Iterator[Single]:
    for name in ("SUM", "PROD", "MAX", "MIN"):
        segments = [_F, _I, np.array(3, np.int32)]
        yield f"UNSORTED_SEGMENT_{name}", "float32", segments, [_F], {}
    table, starts = ((3, 2), "float32"), ((2,), "int32")
    part = ((2, 1), "float32")
    yield "DYNAMIC_UPDATE_SLICE", "float32", [table, part, starts], [table], {}
    each = [((), "int32")] * 2
    yield "STABLEHLO_DYNAMIC_UPDATE_SLICE", "float32", [table, part, *each], [table], {}
    sizes = {"slice_sizes": _ints(2, 1, dtype="int64")}
    yield "STABLEHLO_DYNAMIC_SLICE", "float32", [table, *each], [part], sizes
    gathered = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0],
                "index_vector_dim": 1, "slice_sizes": [1, 2]}  # fmt: skip
    yield "STABLEHLO_GATHER", "float32", [table, ((2, 1), "int32")], [((2, 2), "float32")], gathered


def _shapes() -> Iterator[Single]:
    row, table = ((1, 3), "float32"), ((2, 3), "float32")
    yield "BROADCAST_TO", "float32", [row, _ints(2, 3)], [table], {}
    for kind in ("int32", "int64"):
        vector = ((2,), kind)
        yield "BROADCAST_ARGS", kind, [vector, _ints(2, 3, dtype=kind)], [vector], {}
    yield "DILATE", "float32", [_F, _ints(2), ((), "float32")], [((5,), "float32")], {}
    pads = {"edge_padding_low": [1], "edge_padding_high": [-1], "interior_padding": [1]}
    yield "STABLEHLO_PAD", "float32", [_F, ((), "float32")], [((5,), "float32")], pads
    yield "STABLEHLO_RESHAPE", "float32", [table], [((3, 2), "float32")], {}
    turned = {"permutation": [1, 0]}
    yield "STABLEHLO_TRANSPOSE", "float32", [table], [((3, 2), "float32")], turned
    cut = {"start_indices": [1], "limit_indices": [3], "strides": [1]}
    yield "STABLEHLO_SLICE", "float32", [_F], [((2,), "float32")], cut
    joined = {"dimension": 0}
    yield "STABLEHLO_CONCATENATE", "float32", [_F, _F], [((6,), "float32")], joined
    spread = {"broadcast_dimensions": [1]}
    yield "STABLEHLO_BROADCAST_IN_DIM", "float32", [_F], [table], spread
    yield "STABLEHLO_IOTA", "float32", [], [_F], {"iota_dimension": 0}


def _windows() -> Iterator[Single]:
    steps = dict.fromkeys(("stride_d", "stride_h", "stride_w"), 1)
    volume, taps = ((1, 2, 3, 3, 2), "float32"), np.ones((1, 2, 2, 2, 1), np.float32)
    made = ((1, 2, 2, 2, 1), "float32")
    yield "CONV_3D", "float32", [volume, taps], [made], steps | {"padding": 1}
    shape, back = _ints(1, 2, 3, 3, 1), np.ones((1, 2, 2, 1, 2), np.float32)
    given, whole = ((1, 2, 2, 2, 2), "float32"), ((1, 2, 3, 3, 1), "float32")
    yield "CONV_3D_TRANSPOSE", "float32", [shape, back, given], [whole], steps | {"padding": 1}
    yield "RFFT2D", "float32", [((2, 4), "float32"), _ints(2, 4)], [((2, 3), "complex64")], {}
    sizes = [_ints(n, dtype="int64") for n in (2, 1, 1)]
    for kind, function in (("float32", 1), ("bool", 5)):
        yield ("REDUCE_WINDOW", kind, [((3,), kind), ((), kind), *sizes], [((2,), kind)],
               {"reduce_function": function})  # fmt: skip
    convolved = {
        "window_strides": [1, 1], "padding": [0, 0, 0, 0], "lhs_dilation": [1, 1],
        "rhs_dilation": [1, 1], "window_reversal": [False, False], "input_batch_dimension": 0,
        "input_feature_dimension": 3, "input_spatial_dimensions": [1, 2],
        "kernel_input_feature_dimension": 2, "kernel_output_feature_dimension": 3,
        "kernel_spatial_dimensions": [0, 1], "output_batch_dimension": 0,
        "output_feature_dimension": 3, "output_spatial_dimensions": [1, 2],
        "feature_group_count": 1, "batch_group_count": 1,
    }  # fmt: skip
    picture, kernel = ((1, 3, 3, 2), "float32"), np.ones((2, 2, 2, 1), np.float32)
    made = ((1, 2, 2, 1), "float32")
    yield "STABLEHLO_CONVOLUTION", "float32", [picture, kernel], [made], convolved
    product = {"lhs_batching_dimensions": [0], "rhs_batching_dimensions": [0],
               "lhs_contracting_dimensions": [2], "rhs_contracting_dimensions": [1]}  # fmt: skip
    sides = [((2, 1, 3), "float32"), ((2, 3, 2), "float32")]
    yield "STABLEHLO_DOT_GENERAL", "float32", sides, [((2, 1, 2), "float32")], product


def _small_types() -> Iterator[Single]:
    """Operators of the published list on types of less than a byte, and on bfloat16."""
    plain = {"int4": 0.5, "int2": 0.5, "uint4": 0.5}
    for kind, scale in plain.items():
        yield "CAST", kind, [((3,), kind)], [_F], {}
        if kind != "uint4":
            yield "DEQUANTIZE", kind, [((3,), kind, scale)], [_F], {}
        yield "RESHAPE", kind, [((2, 3), kind, scale), _ints(6)], [((6,), kind, scale)], {}
    yield "CAST", "bfloat16", [((3,), "bfloat16")], [_F], {}
    yield "QUANTIZE", "int4", [_F], [((3,), "int4", 0.5)], {}
    yield "GATHER", "int4", [((3,), "int4", 0.5), _ints(2, 0)], [((2,), "int4", 0.5)], {}
    begin, size = _ints(1), _ints(2)
    yield "SLICE", "int4", [((3,), "int4", 0.5), begin, size], [((2,), "int4", 0.5)], {}
    parts = [((3,), "int4", 0.5)] * 2
    yield "CONCATENATION", "int4", parts, [((6,), "int4", 0.5)], {"axis": 0}


# --- operators that need more than one ------------------------------------------------------------


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
    net.inputs = [_add(net, f"x{i}", tensor) for i, tensor in enumerate(tensors)]
    net.outputs = [_add(net, "y", y)]
    number = _region(net, region[0], made=region[1])
    net.add(name, net.inputs, net.outputs, options | {field: number})
    return name, "float32", net, {f"x{i}": _ones(t) for i, t in enumerate(tensors)}


def _with_regions() -> Iterator[Made]:
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
    inner.inputs, inner.outputs = [_add(inner, "a", _F)], [_add(inner, "c", _F)]
    inner.add(name, inner.inputs, inner.outputs)
    return len(net.others)


def _composite() -> Made:
    net = Net()
    net.inputs, net.outputs = [_add(net, "x0", _F)], [_add(net, "y", _F)]
    options = {"name": "own.square", "decomposition_subgraph_index": _unary(net, "SQUARE")}
    net.add("STABLEHLO_COMPOSITE", net.inputs, net.outputs, options)
    return "STABLEHLO_COMPOSITE", "float32", net, {"x0": _ones(_F)}


def _case() -> Made:
    net = Net()
    net.inputs = [_add(net, "i", ((), "int32")), _add(net, "x0", _F)]
    net.outputs = [_add(net, "y", _F)]
    branches = [_unary(net, "EXP"), _unary(net, "NEG")]
    net.add("STABLEHLO_CASE", net.inputs, net.outputs, {"branch_subgraph_indices": branches})
    return "STABLEHLO_CASE", "float32", net, {"i": np.ones((), np.int32), "x0": _ones(_F)}


def _loop() -> Made:
    """x plus itself until it is not below 5."""
    net, one = Net(), ((), "float32")
    net.inputs, net.outputs = [_add(net, "x0", one)], [_add(net, "y", one)]
    condition, body = net.another(), net.another()
    condition.inputs = [_add(condition, "a", one)]
    condition.outputs = [_add(condition, "c", ((), "bool"))]
    limit = _add(condition, "limit", np.array(5, np.float32))
    condition.add("LESS", [condition.inputs[0], limit], condition.outputs)
    body.inputs, body.outputs = [_add(body, "a", one)], [_add(body, "c", one)]
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


def _of_resources() -> Iterator[Made]:
    for name in ("VAR_HANDLE", "ASSIGN_VARIABLE", "READ_VARIABLE", "CALL_ONCE"):
        kind = "resource" if name in ("VAR_HANDLE", "CALL_ONCE") else "float32"
        net = first = Net()
        if name == "CALL_ONCE":
            first = net.another()
            net.add(name, [], [], {"init_subgraph_index": 1})
            value = _add(first, "one", np.ones(3, np.float32))
        else:
            value = _add(net, "x0", _F)
            net.inputs = [value]
        variable = {"shared_name": "v"}
        first.add("ASSIGN_VARIABLE", [_handle(first, "VAR_HANDLE", variable), value], [])
        read = _add(net, "read", _F)
        net.add("READ_VARIABLE", [_handle(net, "VAR_HANDLE", variable)], [read])
        net.outputs = [read]
        yield name, kind, net, {"x0": _ones(_F)} if net.inputs else {}
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
    return net, {"x0": _ones(((2,), key)), "x1": _ones(((1,), value))}


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
