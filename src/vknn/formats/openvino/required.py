"""Required attributes of layers: those that neither the notation nor OpenVINO has a default for.

Some repeat what ports and blobs say (``output``, ``out-size``, ``hidden_size``, ``input``). Left
out are attributes that the notation calls required and OpenVINO has a default for, as
``pool-method`` and ``power``. Of Crop one is enough to say of which kind it is; its converter asks
for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

_KERNEL = "kernel|kernel-y|kernel-x|kernel_h|kernel_w"
#: Layer type -> its required attributes. Alternative spellings are parted by |; one is enough.
_REQUIRED: dict[str, tuple[str, ...]] = {
    "Activation": ("type",),
    "ArgMax": ("top_k",),
    "BatchNormalization": ("epsilon|eps",),
    "BinaryConvolution": (_KERNEL, "output", "input"),
    "Clamp": ("min", "max"),
    "Convolution": (_KERNEL, "output"),
    "Crop": ("offset|crop_begin|crop_end",),
    "Deconvolution": (_KERNEL, "output"),
    "DeformableConvolution": (_KERNEL, "output"),
    "DetectionOutput": ("num_classes", "nms_threshold"),
    "ExperimentalDetectronROIFeatureExtractor": ("output_size", "pyramid_scales"),
    "FakeQuantize": ("levels",),
    "FullyConnected": ("out-size|out_size",),
    "GRUCell": ("hidden_size",),
    "LSTMCell": ("hidden_size",),
    "Memory": ("id", "index"),
    "MVN": ("eps",),
    "Norm": ("alpha", "beta", "local-size|local_size"),
    "Normalize": ("eps",),
    "OneHot": ("depth",),
    "Pad": ("pads_begin", "pads_end"),
    "Permute": ("order",),
    "Pooling": (f"{_KERNEL}|global_pool|global-pool|global_pooling",),
    "PriorBox": ("offset",),
    "PriorBoxClustered": ("clip", "offset"),
    "Proposal": (
        "base_size", "pre_nms_topn", "post_nms_topn", "nms_thresh", "feat_stride", "min_size",
    ),
    "PSROIPooling": ("output_dim", "spatial_scale"),
    "RegionYolo": ("coords", "classes", "num"),
    "ReorgYolo": ("stride",),
    "Resample": ("type",),
    "RNNCell": ("hidden_size",),
    "ROIPooling": ("pooled_h", "pooled_w", "spatial_scale"),
    "SimplerNMS": (
        "pre_nms_topn", "post_nms_topn", "iou_threshold", "feat_stride", "min_bbox_size",
    ),
    "Tile": ("axis", "tiles"),
    "TopK": ("mode", "sort"),
    "Unique": ("sorted", "return_inverse", "return_counts"),
}  # fmt: skip
#: Layer type -> attributes that an input port of this number may give instead.
_PORTS = {"Pad": {"pads_begin": 1, "pads_end": 2}}


def required_attributes(type_: str) -> tuple[str, ...]:
    """Required attributes of the layer type of this name, as the notation spells it."""
    return _REQUIRED.get(type_, ())


def missing_attributes(type_: str, attributes: Mapping[str, str], ports: int) -> list[str]:
    """Required attributes, in their first spelling, that neither ``attributes`` nor ports give."""
    given, instead = attributes.keys(), _PORTS.get(type_, {})
    spellings = [names.split("|") for names in required_attributes(type_)]
    missing = [names[0] for names in spellings if given.isdisjoint(names)]
    return [name for name in missing if ports <= instead.get(name, ports)]
