"""The table of layers."""

from __future__ import annotations

import dataclasses

import pytest

from vknn.formats.ncnn.layers import layer_type, layer_types
from vknn.formats.ncnn.registry import layer


def test_a_name_is_taken_once() -> None:
    assert layer_type("ReLU") is not None
    with pytest.raises(ValueError, match="twice"):
        layer("ReLU")(lambda c: c.x)


def test_ids_are_declared_once_a_layer() -> None:
    for name, type_ in layer_types().items():
        ids = [f.metadata["id"] for f in dataclasses.fields(type_.params)]
        assert len(set(ids)) == len(ids), name
        assert all(0 <= i < 30 for i in ids), name


def test_defaults_come_from_earlier_parameters() -> None:
    for name, type_ in layer_types().items():
        seen: set[str] = set()
        for field in dataclasses.fields(type_.params):
            like = field.metadata["like"]
            assert like is None or like in seen, name
            seen.add(field.name)


def test_the_benchmark_layers_are_there() -> None:
    """Every layer type of the benchmark networks."""
    wanted = """BinaryOp Concat Convolution ConvolutionDepthWise Crop Eltwise GELU Gemm HardSigmoid
    HardSwish InnerProduct Input Interp LRN LayerNorm MemoryData MultiHeadAttention Noop Padding
    Permute Pooling ReLU Reshape ShuffleChannel Sigmoid Slice Softmax Split Swish
    Yolov3DetectionOutput"""
    assert set(wanted.split()) <= set(layer_types())
