"""Convolutions, deconvolutions, deformable and binary convolutions, and FullyConnected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.common.windows import SlidingWindow, window
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.elementwise.binary import Add, Mul
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Pad, Slice


@dataclass(frozen=True)
class _Parameters:
    """Parameters that all convolutions have. ``outputs``: the number of output channels."""

    window: SlidingWindow
    outputs: int
    group: int
    channels: int
    sizes: tuple[int, ...]


def _parameters(c: Context, ranks: Sequence[int] = (3, 4, 5)) -> _Parameters:
    rank, group = c.rank, c.int("group", 1)
    c.require(rank in ranks, f"its input has rank {rank}")
    _, channels, *sizes = c.x.type.dims
    outputs = c.int("output")
    fits = group >= 1 and channels % group == 0 and outputs % group == 0
    c.require(fits, f"{group} groups do not divide {channels} channels and {outputs} outputs")
    c.require(outputs >= 1, "has no output channels")
    return _Parameters(window(c, rank - 2), outputs, group, channels, tuple(sizes))


def _weights_bias(
    c: Context, shape: Sequence[int], count: int, first: int
) -> tuple[Value, Value | None]:
    """Weights of this shape and, where there are any, ``count`` biases, all float32.

    They are blobs or, from input ``first`` on, inputs (as in files that quantize weights).
    """
    return _weights(c, shape, first), _biases(c, count, first + 1)


def _weights(c: Context, shape: Sequence[int], number: int) -> Value:
    given = c.optional(number)
    if c.has_blob("weights") or given is None:
        return c.constant(c.blob("weights", shape, np.float32), "weights")
    said = "x".join(map(str, shape))
    c.require(given.type.size == math.prod(shape), f"its weights {given.type} are not {said}")
    return c.reshape(c.float_input(number), shape)


def _biases(c: Context, count: int, number: int) -> Value | None:
    if c.has_blob("biases"):
        return c.constant(c.blob("biases", count, np.float32), "biases")
    given = c.optional(number)
    if given is None:
        return None
    c.require(given.type.size == count, f"its biases {given.type} are not {count}")
    return c.reshape(c.float_input(number), (count,))


@layer("Convolution", inputs=(1, 3))
def convolution(c: Context) -> Value:
    """Convolution; weights [group, outputs / group, inputs / group, kernel...]."""
    s = _parameters(c)
    w = s.window
    weights, bias = _weights_bias(c, (s.outputs, s.channels // s.group, *w.kernel), s.outputs, 1)
    begins, ends = w.pads(s.sizes)
    op = Conv(w.strides, (*begins, *ends), w.dilations, s.group)
    return c.add(op, c.float_input(), weights, *_given(bias))


def _given(bias: Value | None) -> tuple[Value, ...]:
    return () if bias is None else (bias,)


@layer("Deconvolution", inputs=(1, 3))
def deconvolution(c: Context) -> Value:
    """Transposed convolution; weights [group, inputs / group, outputs / group, kernel...].

    The output port's shape takes precedence over the pads: what differs is cut off or added at the
    end.
    """
    s = _parameters(c)
    w = s.window
    full = [(n - 1) * t + e for n, t, e in zip(s.sizes, w.strides, w.extents, strict=True)]
    begins, sizes = _begins_and_sizes(c, s, full)
    shape = (s.channels, s.outputs // s.group, *w.kernel)
    weights, bias = _weights_bias(c, shape, s.outputs, 1)
    rest = [f - b - n for f, b, n in zip(full, begins, sizes, strict=True)]
    ends, more = tuple(max(r, 0) for r in rest), tuple(max(-r, 0) for r in rest)
    op = ConvTranspose(w.strides, (*begins, *ends), w.dilations, s.group, more)
    return c.add(op, c.float_input(), weights, *_given(bias))


def _begins_and_sizes(
    c: Context, s: _Parameters, full: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """The number of elements to cut off at the begin of each axis, and the output's sizes."""
    w = s.window
    same = w.auto_pad in ("same_upper", "same_lower")
    if c.is_as_declared and len(c.port().dims) == c.rank:
        sizes: Sequence[int] = c.port().dims[2:]
    elif same:
        sizes = [n * t for n, t in zip(s.sizes, w.strides, strict=True)]
    else:
        begins, ends = w.pads(s.sizes)
        sizes = [f - b - e for f, b, e in zip(full, begins, ends, strict=True)]
    if same:
        return w.begins_of([max(f - n, 0) for f, n in zip(full, sizes, strict=True)]), sizes
    return w.pads(s.sizes)[0], sizes


@layer("DeformableConvolution", inputs=(2, 4))
def deformable_convolution(c: Context) -> Value:
    """Deformable convolution (Dai et al. 2017, arXiv:1703.06211).

    Inputs: image and offsets [N, 2 * groups * kernel, OH, OW], the shift along the height, then
    along the width, of each tap. A sample outside of the image is 0; between the last pixel and the
    image's end it is that pixel. Each group of the convolution counts its channels from 0 when it
    looks up their shifts, as in OpenVINO, so that later shifts are not used.
    """
    s = _parameters(c, ranks=(4,))
    w = s.window
    weights, bias = _weights_bias(c, (s.outputs, s.channels // s.group, *w.kernel), s.outputs, 2)
    begins, ends = w.pads(s.sizes)
    (top, left), (bottom, right) = begins, ends
    stated = c.int("deformable_group|num_deformable_group", 1)
    shifts, parts = _shifts(c, s, stated)
    op = DeformConv(
        (w.strides[0], w.strides[1]),
        (top, left, bottom, right),
        (w.dilations[0], w.dilations[1]),
        s.group,
        parts,
        clamped=True,
    )
    return c.add(op, c.float_input(), weights, shifts, *_given(bias))


def _shifts(c: Context, s: _Parameters, parts: int) -> tuple[Value, int]:
    """The shifts of a DeformableConvolution for each of ``parts`` equal parts of the channels."""
    offsets = c.float_input(1)
    dims = offsets.type.dims
    taps = 2 * math.prod(s.window.kernel)
    fits = parts >= 1 and s.channels % parts == 0
    c.require(fits, f"{parts} deformable groups do not divide {s.channels} channels")
    if s.group == 1 or parts == 1:
        return offsets, parts
    c.require(
        len(dims) == 4 and dims[1] == parts * taps,
        f"its offsets {list(dims)} do not have {parts} groups of {taps} channels",
    )
    pieces = math.lcm(s.group, parts)
    each, own = pieces // s.group, pieces // parts
    indices = np.array([piece % each // own for piece in range(pieces)], np.int32)
    if not indices.any():
        return c.add(Slice((0,), (taps,), (1,)), offsets), 1
    split = c.reshape(offsets, (dims[0], parts, taps, *dims[2:]))
    taken = c.add(Gather(1), split, c.constant(indices, "groups"))
    return c.reshape(taken, (dims[0], pieces * taps, *dims[2:])), pieces


@layer("BinaryConvolution")
def binary_convolution(c: Context) -> Value:
    """Convolution of signs: 0 stands for -1, 1 for +1; padding is ``pad_value``.

    The weights are bits, eight to a byte, the first one the least significant.
    """
    s = _parameters(c, ranks=(3, 4, 5))
    w = s.window
    c.text("mode", "xnor-popcount", choices=("xnor-popcount",))
    stated = c.int("input", s.channels)
    c.require(stated == s.channels, f"its input has {s.channels} channels, not {stated}")
    shape = (s.outputs, s.channels // s.group, *w.kernel)
    weights = c.constant(_signs(c, shape), "weights")
    signs = c.add(Add(), c.add(Mul(), c.float_input(), c.scalar(2.0)), c.scalar(-1.0))
    begins, ends = w.pads(s.sizes)
    value = c.float("pad_value", 0.0)
    if value and any((*begins, *ends)):
        signs = c.add(Pad((0, 0, *begins, 0, 0, *ends), value=value), signs)
        begins = ends = (0,) * len(s.sizes)
    return c.add(Conv(w.strides, (*begins, *ends), w.dilations, s.group), signs, weights)


def _signs(c: Context, shape: Sequence[int]) -> np.ndarray:
    """The weights of a BinaryConvolution as -1 and 1."""
    count = math.prod(shape)
    record = c.layer.blobs.get("weights")
    if record is None:
        c.fail("has no weights")
    wanted = -(-count // 8)
    if record.precision != "BIN" and record.size != wanted:
        return np.where(c.blob("weights", shape, np.float32) > 0, np.float32(1), np.float32(-1))
    stored = np.frombuffer(c.build.weights.array(record, "weights").tobytes(), np.uint8)
    c.require(len(stored) >= wanted, f"its weights have {len(stored)} bytes, not {wanted}")
    bits = np.unpackbits(stored[:wanted], count=count, bitorder="little")
    return bits.reshape(shape).astype(np.float32) * 2 - 1


@layer("FullyConnected", "InnerProduct", inputs=(1, 3))
def fully_connected(c: Context) -> Value:
    """Matrix product with weights [out-size, elements of an image].

    For an input of rank 3 the weights may also be [out-size, last axis]; the axes before are kept
    then.
    """
    dims = c.x.type.dims
    c.require(len(dims) >= 1, "its input has no axes")
    lead, rest = (dims[0], math.prod(dims[1:])) if len(dims) > 1 else (1, dims[0])
    ports = c.port().dims
    size = c.int("out-size|out_size")
    c.require(size >= 1, f"has {size} outputs")
    if len(dims) == 3 and len(ports) == 3 and _count(c) == size * dims[-1]:
        shape: tuple[int, ...] = dims
    else:
        shape = (lead, rest)
    weights, bias = _weights_bias(c, (size, shape[-1]), size, 1)
    x = c.reshape(c.float_input(), shape)
    return c.add(MatMul(transpose_b=True), x, weights, *_given(bias))


def _count(c: Context) -> int:
    """The number of weights."""
    given = c.optional(1)
    if c.has_blob("weights") or given is None:
        return int(c.blob("weights").size)
    return given.type.size
