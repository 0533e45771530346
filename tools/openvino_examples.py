"""The examples of tools/openvino_table.py: small nets of each layer, made here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ROOT / "tools" / "openvino_layers.txt"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.openvino_writer import Net, iterator  # noqa: E402

#: A tensor that is fed: its dims, with another precision than FP32 as (precision, dims); an array
#: is a constant.
Given = Any
#: Inputs, dims of the outputs, attributes, blobs, precisions of the outputs.
Case = tuple[Sequence[Given], Sequence[Sequence[int]], Mapping[str, Any], Mapping[str, Any], Any]


def layers() -> dict[str, tuple[str, ...]]:
    """The layers of the notation, with the attributes of each."""
    found: dict[str, tuple[str, ...]] = {}
    for line in LAYERS.read_text(encoding="utf-8").splitlines():
        name, mark, rest = line.partition(":")
        if mark and not line.startswith("#"):
            found[name] = tuple(part.strip() for part in rest.split(",") if part.strip())
    return found


def examples(name: str) -> Iterator[Net]:
    """Small nets with a layer, in its different ways."""
    if name in _NETS:
        yield from _NETS[name]()
    for inputs, outputs, attributes, blobs, precisions in CASES.get(name, ()):
        net = Net()
        ports = []
        for number, given in enumerate(inputs):
            if isinstance(given, np.ndarray | np.generic):
                ports.append(net.const(given))
            else:
                named = given and isinstance(given[0], str)
                precision, dims = given if named else (None, given)
                ports.append(net.input(f"x{number}", dims, precision))
        arrays = {n: np.asarray(a, np.float32) if not isinstance(a, np.ndarray) else a
                  for n, a in blobs.items()}  # fmt: skip
        net.layer(name, ports, outputs, attributes, arrays, name="y", precisions=precisions)
        yield net


def _case(
    inputs: Sequence[Given],
    outputs: Any,
    blobs: Mapping[str, Any] | None = None,
    precisions: Sequence[str] = (),
    **attributes: Any,
) -> Case:
    """Names of attributes have _ for -; one output's dims need no list around them."""
    several = list(outputs) if outputs and isinstance(outputs[0], tuple) else [tuple(outputs)]
    named = {_HYPHENS.get(n.rstrip("_"), n.rstrip("_")): v for n, v in attributes.items()}
    return inputs, several, named, blobs or {}, precisions


_HYPHENS = {"out_size": "out-size", "local_size": "local-size", "pool_method": "pool-method",
            "exclude_pad": "exclude-pad"}  # fmt: skip


def _i(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _w(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


X = (1, 4, 6, 6)
V = (1, 4, 3, 6, 6)
ROIS = np.float32([[0, 0, 0, 3, 3], [0, 1, 1, 5, 5]])
_PRIORS = np.float32([[[0.1, 0.1, 0.4, 0.5, 0.3, 0.2, 0.8, 0.9], [0.1] * 8]])
_DETECTION = {"num_classes": 3, "nms_threshold": 0.45, "keep_top_k": 4, "top_k": 5}
_RPN = {"base_size": 16, "pre_nms_topn": 20, "post_nms_topn": 5, "nms_thresh": 0.7, "min_size": 4,
        "feat_stride": 16, "ratio": (0.5, 1), "scale": (2,)}  # fmt: skip
_NMS = [(1, 6, 4), (1, 2, 6), _i(3).reshape(()), np.float32(0.5), np.float32(0.1)]
_CONV = {"kernel": (3, 3), "strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1),
         "dilations": (1, 1), "output": 4}  # fmt: skip
_SPARSE = [(5, 3), ("I32", (4,)), ("I32", (4,))]

CASES: dict[str, Sequence[Case]] = {
    "Activation": [
        _case([X], X, type=t)
        for t in ("sigmoid", "tanh", "elu", "relu6", "not", "exp", "relu", "clamp")
    ],
    "ArgMax": [_case([X], (1, 1, 2), top_k=2), _case([X], (1, 2, 6, 6), top_k=2, axis=1),
               _case([X], (1, 2, 2), top_k=2, out_max_val=1)],
    "BatchNormalization": [_case([X], X, {"weights": _w(4) ** 2, "biases": _w(4)}, epsilon=1e-3)],
    "BinaryConvolution": [_case([X], X, {"weights": np.zeros(18, np.uint8)}, input=4,
                                mode="xnor-popcount", pad_value=-1, **_CONV)],
    "Bucketize": [_case([X, _w(3)], X, precisions=["I32"], with_right_bound=b) for b in (0, 1)],
    "Clamp": [_case([X], X, min=-1, max=2)],
    "Broadcast": [_case([(4, 1), _i(2, 4, 3)], (2, 4, 3))],
    "Concat": [_case([X, X], (1, 8, 6, 6)), _case([X, X], (1, 4, 12, 6), axis=2)],
    "Convolution": [
        _case([X], X, {"weights": _w(4, 4, 3, 3), "biases": _w(4)}, **_CONV),
        _case([X], X, {"weights": _w(4, 2, 3, 3)}, kernel=(3, 3), output=4, group=2,
              auto_pad="same_upper"),
        _case([X], X, {"weights": _w(4, 1, 3, 3)}, **_CONV, group=4),
        _case([V], (1, 2, 1, 4, 4), {"weights": _w(2, 4, 3, 3, 3)}, kernel=(3, 3, 3), output=2),
    ],
    "Crop": [
        _case([X, (1, 2, 3, 6)], (1, 2, 3, 6), axis=(1, 2), offset=(1, 2)),
        _case([X], (1, 4, 3, 2), axis=(2, 3), offset=(1, 2), dim=(3, 2)),
        _case([X], (1, 4, 4, 3), axis=(2, 3), crop_begin=(1, 1), crop_end=(1, 2)),
    ],
    "CTCGreedyDecoder": [_case([(5, 2, 4), (5, 2)], (2, 5, 1, 1), ctc_merge_repeated=m)
                         for m in (0, 1)],
    "Deconvolution": [
        _case([X], (1, 2, 13, 13), {"weights": _w(4, 2, 3, 3), "biases": _w(2)}, kernel=(3, 3),
              strides=(2, 2), pads_begin=(0, 0), pads_end=(0, 0), dilations=(1, 1), output=2),
        _case([X], (1, 2, 12, 12), {"weights": _w(4, 1, 3, 3)}, kernel=(3, 3), strides=(2, 2),
              output=2, group=2, auto_pad="same_upper"),
        _case([V], (1, 2, 5, 8, 8), {"weights": _w(4, 2, 3, 3, 3)}, kernel=(3, 3, 3), output=2),
    ],
    "DeformableConvolution": [
        _case([X, (1, 36, 6, 6)], X, {"weights": _w(4, 4, 3, 3), "biases": _w(4)},
              deformable_group=2, **_CONV),
        _case([X, (1, 18, 6, 6)], X, {"weights": _w(4, 2, 3, 3)}, kernel=(3, 3), output=4, group=2,
              auto_pad="same_upper"),
    ],
    "DepthToSpace": [_case([X], (1, 1, 12, 12), block_size=2)],
    "DetectionOutput": [
        _case([(1, 8), (1, 6), _PRIORS], (1, 1, 4, 7), **_DETECTION,
              code_type="caffe.PriorBoxParameter.CENTER_SIZE", confidence_threshold=0.1,
              background_label_id=0, share_location=1, variance_encoded_in_target=0,
              clip_before_nms=1, clip_after_nms=1),
        _case([(1, 24), (1, 6), _PRIORS], (1, 1, 4, 7), **_DETECTION, share_location=0,
              code_type="caffe.PriorBoxParameter.CORNER", decrease_label_id=1),
        _case([(1, 8), (1, 6), (1, 2, 10)], (1, 1, 4, 7), **_DETECTION, normalized=0,
              input_height=10, input_width=10),
        _case([(1, 8), (1, 6), _PRIORS, (1, 4), (1, 8)], (1, 1, 4, 7), **_DETECTION,
              objectness_score=0.2),
    ],
    "Erf": [_case([X], X)],
    "Eltwise": [
        _case([X, (6, 1)], X, operation=o)
        for o in ("sum", "sub", "mul", "div", "max", "min", "squared_diff", "floor_mod", "pow",
                  "logical_and", "logical_or", "logical_xor", "less", "less_equal", "greater",
                  "greater_equal", "equal", "not_equal")
    ] + [_case([X, X], X, coeff=(1, -0.5))],
    "Fill": [_case([_i(2, 3), ()], (2, 3))],
    "Flatten": [_case([X], (1, 144), axis=1, end_axis=-1), _case([X], (144,))],
    "FullyConnected": [_case([X], (1, 3), {"weights": _w(3, 144), "biases": _w(3)}, out_size=3)],
    "Gather": [_case([X, ("I32", (3,))], (1, 4, 3, 6), axis=2)],
    "GRN": [_case([X], X, bias=1)],
    "Interp": [
        _case([X], (1, 4, 12, 9), height=12, width=9, align_corners=0),
        _case([X], (1, 4, 12, 12), factor=2), _case([X], (1, 4, 3, 3), shrink_factor=2),
        _case([X], (1, 4, 11, 11), zoom_factor=2, shrink_factor=1),
        _case([X], (1, 4, 12, 9), height=12, width=9, pad_beg=1, pad_end=1),
        _case([X, _i(5, 7)], (1, 4, 5, 7)),
    ],
    "MVN": [_case([x], x, across_channels=a, normalize_variance=n, eps=1e-5)
            for x in (X, V) for a in (0, 1) for n in (0, 1)],
    "NonMaxSuppression": [
        _case(_NMS, (6, 3), precisions=["I32"]),
        _case(_NMS[:2], (12, 3), precisions=["I32"], center_point_box=1,
              sort_result_descending=0),
    ],
    "Norm": [_case([X], X, alpha=1e-4, beta=0.75, region=r, local_size=3, k=1)
             for r in ("across", "same")],
    "Normalize": [
        _case([X], X, {"weights": _w(1 if s else 4)}, across_spatial=a, channel_shared=s, eps=1e-6)
        for a in (0, 1) for s in (0, 1)
    ],
    "OneHot": [_case([("I32", (2, 3))], (2, 3, 5), depth=5, on_value=2, off_value=-1),
               _case([(2, 3)], (2, 5, 3), depth=5, axis=1)],
    "Pad": [_case([X], (1, 4, 9, 8), pads_begin=(0, 0, 1, 2), pads_end=(0, 0, 2, 0), pad_mode=m,
                  pad_value=1) for m in ("constant", "edge", "reflect", "symmetric")],
    "Permute": [_case([X], (1, 6, 4, 6), order=(0, 3, 1, 2))],
    "Pooling": [
        _case([X], (1, 4, 3, 3), kernel=(2, 2), strides=(2, 2), pads_begin=(0, 0),
              pads_end=(0, 0), pool_method=m, exclude_pad="true", rounding_type="ceil")
        for m in ("max", "avg")
    ] + [
        _case([X], X, kernel=(3, 3), strides=(1, 1), auto_pad="same_upper", pool_method="avg",
              exclude_pad="false"),
        _case([V], (1, 4, 2, 5, 5), kernel=(2, 2, 2), strides=(1, 1, 1), pool_method="avg",
              exclude_pad="false"),
    ],
    "Power": [_case([X], X, power=p, scale=2, shift=1) for p in (1, 2, 0.5, -1, 3, 2.5, 0)],
    "PReLU": [_case([X], X, {"weights": _w(4)}, channel_shared=0),
              _case([X], X, {"weights": _w(1)}, channel_shared=1)],
    "PriorBox": [
        _case([X, (1, 3, 60, 60)], (1, 2, 36 * 4 * 4), min_size=10, max_size=20, aspect_ratio=2,
              flip=1, clip=1, step=10, offset=0.5, variance=(0.1, 0.1, 0.2, 0.2)),
        _case([X, (1, 3, 60, 60)], (1, 2, 36 * 4), min_size=10, offset=0.5, scale_all_sizes=0,
              step_w=10, step_h=10),
        _case([X, (1, 3, 60, 60)], (1, 2, 36 * 16), fixed_size=20, fixed_ratio=1, density=2,
              offset=0.5),
    ],
    "PriorBoxClustered": [
        _case([X, (1, 3, 60, 60)], (1, 2, 36 * 8), width=(10, 20), height=(20, 10), clip=1,
              step_w=10, step_h=10, offset=0.5, variance=0.1, img_h=60, img_w=60),
        _case([X, (1, 3, 60, 60)], (1, 2, 36 * 4), width=10, height=10, clip=0, step=8,
              offset=0.5),
    ],
    "Proposal": [
        _case([(1, 4, 3, 3), (1, 8, 3, 3), (1, 3)], (5, 5), **_RPN, clip_before_nms=1,
              clip_after_nms=1, normalize=1, box_size_scale=2, box_coordinate_scale=2,
              for_deformable=1),
        _case([(1, 4, 3, 3), (1, 8, 3, 3), (1, 4)], [(5, 5), (5,)], **_RPN, framework="tensorflow"),
    ],
    "PSROIPooling": [
        _case([(1, 8, 6, 6), ROIS], (2, 2, 2, 2), output_dim=2, group_size=2, spatial_scale=1,
              mode="average"),
        _case([(1, 8, 6, 6), ROIS / 6], (2, 2, 2, 2), output_dim=2, group_size=2, spatial_scale=1,
              mode="bilinear", spatial_bins_x=2, spatial_bins_y=2),
    ],
    "FakeQuantize": [_case([X, *map(np.float32, (0, 2, 0, 2))], X, levels=n) for n in (2, 256)],
    "Range": [_case([("I32", (1,)), _i(9), _i(2)], (5,), precisions=["I32"]),
              _case([(1,), np.float32([2]), np.float32([0.5])], (4,))],
    "RegionYolo": [
        _case([(1, 14, 3, 3)], (1, 126), coords=4, classes=2, num=2, do_softmax=1, axis=1,
              end_axis=3, anchors=(1, 2, 3, 4)),
        _case([(1, 14, 3, 3)], (1, 14, 3, 3), coords=4, classes=2, num=6, do_softmax=0,
              mask=(0, 1)),
    ],
    "ReLU": [_case([X], X), _case([X], X, negative_slope=0.1)],
    "ReorgYolo": [_case([X], (1, 16, 3, 3), stride=2)],
    "Resample": [
        _case(i, (1, 4, *s), type=f"caffe.ResampleParameter.{t}", antialias=a, factor=f)
        for i, s, f in (([X], (12, 12), 2), ([X], (3, 3), 0.5), ([X, _i(1, 4, 5, 7)], (5, 7), 0))
        for t, a in (("NEAREST", 0), ("LINEAR", 0), ("LINEAR", 1))
    ],
    "Reshape": [_case([X, _i(0, -1)], (1, 144)), _case([X], (24, 6), dim=(-1, 6))],
    "ReverseSequence": [_case([(3, 4, 2), ("I32", (3,))], (3, 4, 2), batch_axis=0, seq_axis=1)],
    "ROIPooling": [
        _case([X, ROIS], (2, 4, 2, 2), pooled_h=2, pooled_w=2, spatial_scale=0.5, method=m)
        for m in ("max", "bilinear")
    ],
    "ExperimentalDetectronROIFeatureExtractor": [
        _case([np.float32([[0, 0, 9, 9]]), (1, 2, 8, 8), (1, 2, 4, 4)], (1, 2, 3, 3),
              output_size=3, sampling_ratio=2, pyramid_scales=(4, 8)),
    ],
    "ExperimentalSparseWeightedSum": [
        _case([("I32", (4, 2)), ("I32", (4,)), _i(3, 3), (5, 3), np.int32(1), (4,)], (3, 3)),
    ],
    "ScaleShift": [_case([X], X, {"weights": _w(4), "biases": _w(4)}),
                   _case([X], X, {"weights": _w(1)}, broadcast=1)],
    "Select": [_case([("I32", (6, 1)), X, X], X)],
    "Shape": [_case([X], (4,), precisions=["I32"])],
    "ShuffleChannels": [_case([X], X, axis=1, group=2)],
    "SimplerNMS": [
        _case([(1, 18, 3, 3), (1, 36, 3, 3), np.float32([[90, 90, 1]])], (5, 5), pre_nms_topn=20,
              post_nms_topn=5, iou_threshold=0.7, feat_stride=16, min_bbox_size=4,
              scale=(1, 2, 4)),
    ],
    "Slice": [_case([X], [(1, 1, 6, 6), (1, 3, 6, 6)], axis=1)],
    "SoftMax": [_case([X], X, axis=1)],
    "SparseFillEmptyRows": [
        _case([(4, 2), (4,), np.float32([3, 4]), np.float32([7])], [(6, 2), (6,), (3,)]),
    ],
    "SparseSegmentMean": [_case(_SPARSE, (4, 3))],
    "SparseSegmentSqrtN": [_case(_SPARSE, (4, 3))],
    "SparseSegmentSum": [_case(_SPARSE, (4, 3))],
    "SparseToDense": [_case([("I32", (3, 2)), _i(4, 5), (3,), np.float32(1)], (4, 5))],
    "Split": [_case([X], [(1, 2, 6, 6)] * 2, axis=1, num_split=2)],
    "Squeeze": [_case([X, _i(0)], (4, 6, 6)), _case([X], (4, 6, 6))],
    "StridedSlice": [
        _case([X, _i(0, 1, 5, 2), _i(1, 4, 0, 3), _i(1, 2, -2, 1)], (1, 2, 3),
              begin_mask=(1, 1, 1, 1), end_mask=(1, 1, 1, 1), shrink_axis_mask=(0, 0, 0, 1)),
        _case([X, _i(0, 0, 1), _i(0, 0, 3)], (1, 1, 4, 6, 2), new_axis_mask=(1, 0, 0),
              ellipsis_mask=(0, 1, 0)),
    ],
    "Tile": [_case([X], (1, 12, 6, 6), axis=1, tiles=3)],
    "TopK": [_case([X, _i(2)], [(1, 2, 6, 6)] * 2, precisions=[None, "I32"], axis=1, mode=m, sort=s)
             for m in ("max", "min") for s in ("value", "index", "none")],
    "Unique": [_case([(6,)], [(6,)] * 3, sorted_=s, return_inverse="true", return_counts="true")
               for s in ("true", "false")],
    "Unsqueeze": [_case([X, _i(0, -1)], (1, 1, 4, 6, 6, 1))],
}  # fmt: skip


# --- nets of several layers -----------------------------------------------------------------------


def _sources() -> Iterator[Net]:
    net = Net()
    x = net.input("x", (2, 2))
    net.layer("Concat", [x, net.const(_w(2, 2))], [(4, 2)], {"axis": 0}, name="y")
    yield net


def _memory() -> Iterator[Net]:
    net = Net()
    x = net.input("x", (1, 2))
    read = net.layer("Memory", [], [(1, 2)], {"id": "m", "index": 1, "size": 2})[0]
    net.layer("Memory", [x], [], {"id": "m", "index": 0, "size": 2})
    net.layer("Concat", [x, read], [(1, 4)], {"axis": 1}, name="y")
    yield net


def _cell(kind: str, gates: int, states: int, **attributes: Any) -> Iterator[Net]:
    for more in ({}, attributes):
        net = Net()
        ports = [net.input("x", (2, 3)), *(net.input(f"s{i}", (2, 4)) for i in range(states))]
        rows = gates + bool(more.get("linear_before_reset"))
        blobs = {"weights": _w(gates, 4, 7), "biases": _w(rows, 4)}
        net.layer(kind, ports, [(2, 4)] * states, {"hidden_size": 4, **more}, blobs, name="y")
        yield net


def _loop() -> Iterator[Net]:
    """Over a cell, which becomes one op, and over other layers, which are repeated."""
    for fused in (True, False):
        net = Net()
        x, h = net.input("x", (3, 2, 4)), net.input("h", (2, 4))
        body = net.body()
        row = body.layer("Reshape", [(1, 2, 4)], [(2, 4)], {"dim": (2, 4)})[0]
        if fused:
            blobs = {"weights": _w(3, 4, 8), "biases": _w(3, 4)}
            new = body.layer("GRUCell", [row, (2, 4)], [(2, 4)], {"hidden_size": 4}, blobs)[0]
        else:
            new = body.layer("Eltwise", [row, (2, 4)], [(2, 4)], {"operation": "sum"})[0]
        inputs = [
            {"external_port_id": 0, "internal_layer_id": 0, "internal_port_id": 0, "axis": 0},
            {"external_port_id": 1, "internal_layer_id": new.layer, "internal_port_id": 1},
        ]
        outputs = [{"external_port_id": 2, "internal_layer_id": new.layer, "internal_port_id": 2}]
        edges = [((new.layer, 2), (new.layer, 1))]
        children = iterator(body, inputs, outputs, edges)
        net.layer("TensorIterator", [x, h], [(2, 4)], name="y", children=children)
        yield net


_NETS: dict[str, Callable[[], Iterator[Net]]] = {
    "Input": _sources,
    "Const": _sources,
    "Memory": _memory,
    "LSTMCell": lambda: _cell("LSTMCell", 4, 2, clip=0.5, activations="tanh,relu,tanh"),
    "GRUCell": lambda: _cell("GRUCell", 3, 1, clip=0.5, linear_before_reset=1),
    "RNNCell": lambda: _cell("RNNCell", 1, 1, clip=0.5, activations="relu"),
    "TensorIterator": _loop,
}
