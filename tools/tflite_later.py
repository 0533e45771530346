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

from tests.tflite_writer import Net  # noqa: E402
from tools.pages import described  # noqa: E402
from tools.tflite_nets import (  # noqa: E402
    Made,
    Typed,
    add,
    of_resources,
    ones,
    with_regions,
)

Example = dict[str, Any]
#: Operator, element type, inputs (arrays are constants), outputs, options.
Single = tuple[str, str, Sequence[Any], Sequence[Typed], dict[str, Any]]

_F: Typed = ((3,), "float32")
_B: Typed = ((3,), "bool")
_I: Typed = ((3,), "int32")
_UNARY = ("LOGISTIC", "ABS", "COSINE", "EXPONENTIAL", "FLOOR", "LOG", "NEGATE", "RSQRT", "TANH",
          "CBRT")  # fmt: skip
_BINARY = ("ADD", "DIVIDE", "MULTIPLY", "MAXIMUM", "MINIMUM", "SUBTRACT", "POWER", "REMAINDER")
_OF_BITS = ("STABLEHLO_AND", "STABLEHLO_OR", "STABLEHLO_SHIFT_LEFT", "BITWISE_XOR", "RIGHT_SHIFT")
_CASTABLE = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32",
             "int64", "uint64", "bool", "complex64", "complex128", "bfloat16")  # fmt: skip


def examples() -> dict[str, dict[str, Example]]:
    """Operator -> element type -> example, as tools/tflite_examples.py records them."""
    found: dict[str, dict[str, Example]] = {}
    singles = (*_arithmetic(), *_indexing(), *_shapes(), *_windows(), *_small_types())
    made = (*map(_net, singles), *with_regions(), *of_resources())
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
    places = [add(net, f"x{i}", tensor) for i, tensor in enumerate(inputs)]
    net.inputs = [p for p, t in zip(places, inputs, strict=True) if isinstance(t, tuple)]
    net.outputs = [add(net, f"y{i}", tensor) for i, tensor in enumerate(outputs)]
    net.add(name, places, net.outputs, options or None)
    feeds = {f"x{i}": ones(t) for i, t in enumerate(inputs) if isinstance(t, tuple)}
    return name, kind, net, feeds


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
