"""Ops to differentiate: inputs, and the same function in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.training.case import Case, Peer, apart, normal, random, whole, within
from tests.training.pointwise_cases import binary, kinks, unary
from tests.training.window_cases import columns, convolutions, pooling, transposed

from vknn.ops import normalization as n
from vknn.ops import reduction as r
from vknn.ops.indexing.gather import Gather, GatherND
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.indexing.topk import TopK
from vknn.ops.matmul import MatMul
from vknn.ops.movement import rearrange as ra
from vknn.ops.movement import shape as m
from vknn.ops.sampling.resize import Resize


def _matmul() -> list[Case]:
    cases = []
    shapes = [((5, 3), (3, 4)), ((2, 5, 3), (3, 4)), ((2, 1, 5, 3), (3, 3, 4)), ((5, 3), (2, 3, 4))]
    for number, (a, b) in enumerate(shapes):
        for ta in (False, True):
            for tb in (False, True):
                left = normal(*(a if not ta else (*a[:-2], a[-1], a[-2])))
                right = normal(*(b if not tb else (*b[:-2], b[-1], b[-2])))
                bias = normal(4) if number % 2 else None

                def peer(t: Any, x: Any, y: Any, c: Any = None, ta=ta, tb=tb) -> Any:
                    x = x.transpose(-1, -2) if ta else x
                    y = y.transpose(-1, -2) if tb else y
                    product = t.matmul(x, y)
                    return product if c is None else product + c

                op = MatMul(ta, tb)
                cases.append(Case(f"matmul-{number}-{ta:d}{tb:d}", op, (left, right, bias), peer))
    return cases


def _normalization() -> list[Case]:
    x = normal(2, 4, 3, 5)
    scale, bias, mean = normal(4), normal(4), normal(4)
    variance = within(0.5, 2, 4)

    def spread(x: Any, v: Any) -> Any:
        return v.reshape(1, -1, *[1] * (x.ndim - 2))

    def batch(t: Any, x: Any, s: Any, b: Any, m: Any, v: Any) -> Any:
        return (x - spread(x, m)) * spread(x, s) / t.sqrt(spread(x, v) + 1e-3) + spread(x, b)

    def variance_of(t: Any, x: Any, axes: tuple[int, ...]) -> Any:
        return ((x - x.mean(axes, keepdim=True)) ** 2).mean(axes, keepdim=True)

    roots = {
        "add": lambda t, s, e: t.sqrt(s + e),
        "add_root": lambda t, s, e: t.sqrt(s) + e,
        "max": lambda t, s, e: t.sqrt(t.clamp(s, min=e)),
        "max_root": lambda t, s, e: t.clamp(t.sqrt(s), min=e),
    }
    cases = [
        Case("batch-norm", n.BatchNormalization(1e-3), (x, scale, bias, mean, variance), batch),
        Case("batch-norm-2d", n.BatchNormalization(1e-3),
             (normal(5, 4), scale, bias, mean, variance), batch),
        Case("layer-norm", n.LayerNormalization(2, 1e-3), (x, normal(3, 5), normal(3, 5)),
             lambda t, x, s, b: t.nn.functional.layer_norm(x, (3, 5), s, b, 1e-3)),
        Case("layer-norm-bare", n.LayerNormalization(-1), (x, None, None),
             lambda t, x, *_: t.nn.functional.layer_norm(x, (5,))),
        Case("group-norm", n.GroupNormalization(2), (x, scale, bias),
             lambda t, x, s, b: t.nn.functional.group_norm(x, 2, s, b)),
        Case("instance-norm", n.InstanceNormalization(), (x, scale, bias),
             lambda t, x, s, b: t.nn.functional.instance_norm(x, None, None, s, b)),
        Case("rms-norm", n.RMSNormalization(-1), (x, normal(5)),
             lambda t, x, s: x / t.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * s),
        Case("lrn", n.LRN((1,), (1,), (2,), 0.1, 0.75, 1.5), (x,),
             lambda t, x: x * (1.5 + 0.1 * _windows(t, x * x, 1, 1, 2)) ** -0.75),
        Case("lrn-within", n.LRN((2, 3), (1, 1), (1, 1), 0.1, 0.5, 1.0), (x,),
             lambda t, x: x / t.sqrt(1 + 0.1 * _windows(t, _windows(t, x * x, 2, 1, 1), 3, 1, 1))),
        Case("centred", n.MeanVarianceNormalization((2, 3), False), (x,),
             lambda t, x: x - x.mean((2, 3), keepdim=True)),
    ]  # fmt: skip
    for mode, root in roots.items():
        epsilon = 0.01 if mode.startswith("add") else 0.9

        def mvn(t, x, root=root, e=epsilon):
            centred = x - x.mean((1, 2, 3), keepdim=True)
            return centred / root(t, variance_of(t, x, (1, 2, 3)), e)

        def l2(t, x, root=root, e=epsilon):
            return x / root(t, (x * x).sum(1, keepdim=True), e)

        op = n.MeanVarianceNormalization((-3, 2, 3), True, epsilon, mode)
        cases.append(Case(f"mvn-{mode}", op, (x,), mvn))
        cases.append(Case(f"l2-{mode}", n.NormalizeL2((1,), epsilon, mode), (x,), l2))
    return cases


def _windows(t: Any, x: Any, axis: int, before: int, after: int) -> Any:
    size = x.shape[axis]
    shifted = []
    for shift in range(-before, after + 1):
        rolled = t.roll(x, -shift, axis)
        place = t.arange(size) + shift
        inside = ((place >= 0) & (place < size)).reshape(-1, *[1] * (x.ndim - axis - 1))
        shifted.append(rolled * inside)
    return sum(shifted)


def _reductions() -> list[Case]:
    x, positive = normal(2, 3, 4, 5), within(0.3, 2, 2, 3, 4, 5)
    zeros = positive.copy()
    zeros[0, 0, 0, 0] = zeros[1, 1, 2, 3] = zeros[1, 1, 2, 2] = 0
    ties = np.asarray(random.integers(0, 3, (2, 3, 4, 5)), np.float32)
    dims = {"axes": (1, 3), "keepdims": True}
    flat = {"axes": (-1, 1), "keepdims": False}
    both = (1, 3)
    return [
        Case("sum", r.ReduceSum(**dims), (x,), lambda t, x: x.sum(both, keepdim=True)),
        Case("sum-flat", r.ReduceSum(**flat), (x,), lambda t, x: x.sum(both)),
        Case("sum-all", r.ReduceSum(), (x,), lambda t, x: x.sum()),
        Case("mean", r.ReduceMean(**flat), (x,), lambda t, x: x.mean(both)),
        Case("max", r.ReduceMax(**flat), (x,), lambda t, x: x.amax(both)),
        Case("max-ties", r.ReduceMax(**flat), (ties,), lambda t, x: x.amax(both), smooth=False),
        Case("min-ties", r.ReduceMin(**dims), (ties,),
             lambda t, x: x.amin(both, keepdim=True), smooth=False),
        Case("prod", r.ReduceProd(axes=(2,)), (positive,), lambda t, x: x.prod(2, keepdim=True)),
        Case("prod-zeros", r.ReduceProd(axes=(3,)), (zeros,), lambda t, x: x.prod(3, keepdim=True)),
        Case("sum-square", r.ReduceSumSquare(**flat), (x,), lambda t, x: (x * x).sum(both)),
        Case("l1", r.ReduceL1(**flat), (x,), lambda t, x: x.abs().sum(both)),
        Case("l2", r.ReduceL2(**flat), (x,), lambda t, x: (x * x).sum(both).sqrt()),
        Case("log-sum", r.ReduceLogSum(**flat), (positive,), lambda t, x: x.sum(both).log()),
        Case("log-sum-exp", r.ReduceLogSumExp(**flat), (x,), lambda t, x: x.logsumexp(both)),
        Case("softmax", r.Softmax(1), (x,), lambda t, x: x.softmax(1)),
        Case("softmax-last", r.Softmax(-1), (x,), lambda t, x: x.softmax(-1)),
        Case("log-softmax", r.LogSoftmax(2), (x,), lambda t, x: x.log_softmax(2)),
        Case("cumsum", r.CumSum(2), (x,), lambda t, x: x.cumsum(2)),
        Case("cumsum-exclusive", r.CumSum(2, True, True), (x,),
             lambda t, x: x.flip(2).cumsum(2).flip(2) - x),
    ]  # fmt: skip


def _movement() -> list[Case]:
    x = normal(2, 3, 4, 5)

    def padded(mode: str) -> Peer:
        return lambda t, x: t.nn.functional.pad(x, (2, 1, 1, 2), mode=mode)

    space = normal(2, 8, 4, 6)
    lengths = whole(3, 1)
    return [
        Case("identity", m.Identity(), (x,), lambda t, x: x),
        Case("reshape", m.Reshape((3, -1, 2)), (x,), lambda t, x: x.reshape(3, -1, 2)),
        Case("transpose", m.Transpose((2, 0, 3, 1)), (x,), lambda t, x: x.permute(2, 0, 3, 1)),
        Case("expand", m.Expand((4, 2, 3, 4, 1)), (normal(3, 1, 5),),
             lambda t, x: x.expand(4, 2, 3, 4, 5)),
        Case("tile", ra.Tile((2, 1, 3, 2)), (x,), lambda t, x: x.repeat(2, 1, 3, 2)),
        Case("concat", m.Concat(-2), (x, normal(2, 3, 1, 5), x[:, :, :2]),
             lambda t, *xs: t.cat(xs, -2)),
        Case("slice", m.Slice((1, -4), (3, 4), (2, 3)), (x,), lambda t, x: x[:, :, 1:3, 1:4]),
        Case("slice-steps", m.Slice((0, 1), (4, 5), (2, 3), (2, 3)), (x,),
             lambda t, x: x[:, :, ::2, 1::3]),
        Case("slice-back", m.Slice((3, -1), (-9, 0), (2, 3), (-2, -1)), (x,),
             lambda t, x: x.flip(2)[:, :, ::2].flip(3)[:, :, :, :4]),
        Case("pad", m.Pad((0, 1, 0, 2, 0, 1, 3, 1), value=2.5), (x,),
             lambda t, x: t.nn.functional.pad(x, (2, 1, 0, 3, 1, 1), value=2.5)),
        Case("pad-reflect", m.Pad((0, 0, 1, 2, 0, 0, 2, 1), "reflect"), (x,), padded("reflect")),
        Case("pad-edge", m.Pad((0, 0, 1, 2, 0, 0, 2, 1), "edge"), (x,), padded("replicate")),
        Case("pad-symmetric", m.Pad((0, 0, 0, 3, 0, 0, 0, 2), "symmetric"), (x,),
             lambda t, x: t.cat([x[..., :3].flip(3), x, x[..., -2:].flip(3)], 3)),
        Case("pad-values", m.Pad((0, 1, 1, 0, 0, 0, 0, 2)), (x, normal(4)), None),
        Case("shuffle", m.ChannelShuffle(2), (space,),
             lambda t, x: t.nn.functional.channel_shuffle(x, 2)),
        Case("depth-to-space", ra.DepthToSpace(2, "CRD"), (space,),
             lambda t, x: t.nn.functional.pixel_shuffle(x, 2)),
        Case("depth-to-space-dcr", ra.DepthToSpace(2), (space,), None),
        Case("space-to-depth", ra.SpaceToDepth(2, "CRD"), (space,),
             lambda t, x: t.nn.functional.pixel_unshuffle(x, 2)),
        Case("slice-update", ra.SliceUpdate((0, 1, 1, 2)), (x, normal(2, 1, 2, 3)),
             lambda t, x, u: _updated(x, u)),
        Case("reverse", ra.ReverseSequence(0, 2), (x, lengths), None),
        Case("diagonal", ra.MatrixDiag(-1), (normal(2, 3),),
             lambda t, x: t.diag_embed(x, -1)),
        Case("diagonal-up", ra.MatrixDiag(2), (normal(2, 3),), lambda t, x: t.diag_embed(x, 2)),
        Case("nearest", Resize((8, 9), "nearest", "asymmetric"), (x,), None),
        Case("linear", Resize((8, 3), "linear", "half_pixel"), (x,),
             lambda t, x: t.nn.functional.interpolate(x, (8, 3), mode="bilinear")),
        Case("linear-corners", Resize((7, 9), "linear", "align_corners"), (x,),
             lambda t, x: t.nn.functional.interpolate(x, (7, 9), mode="bilinear",
                                                      align_corners=True)),
        Case("cubic", Resize((7, 9), "cubic"), (x,),
             lambda t, x: t.nn.functional.interpolate(x, (7, 9), mode="bicubic")),
    ]  # fmt: skip


def _updated(x: Any, update: Any) -> Any:
    y = x.clone()
    y[:, 1:2, 1:3, 2:5] = update
    return y


def _lookup() -> list[Case]:
    x = normal(4, 3, 5)
    pairs = whole(0, 1, 3, 2, -1, 0, 0, 1).reshape(4, 2)
    batched = whole(1, 0, 4, 4, 2, 1, 0, 3).reshape(4, 2, 1)
    places = whole(2, 0).reshape(2, 1)
    return [
        Case("gather", Gather(0), (x, whole(2, 0, 2, -1, 2)),
             lambda t, x, i: x[[2, 0, 2, 3, 2]]),
        Case("gather-axis", Gather(-1), (x, whole(4, 1, 1, 9).reshape(2, 2)),
             lambda t, x, i: x[:, :, [4, 1, 1, 4]].reshape(4, 3, 2, 2)),
        Case("gather-middle", Gather(1), (x, whole(1, 1)), lambda t, x, i: x[:, [1, 1]]),
        Case("gather-nd", GatherND(), (x, pairs),
             lambda t, x, i: x[[0, 3, 3, 0], [1, 2, 0, 1]]),
        Case("gather-nd-batch", GatherND(2), (normal(4, 2, 5), batched), None),
        Case("scatter", ScatterND(), (x, places, normal(2, 3, 5)),
             lambda t, x, i, u: t.cat([u[1:], x[1:2], u[:1], x[3:]])),
        Case("scatter-add", ScatterND("add"), (x, whole(2, 2).reshape(2, 1), normal(2, 3, 5)),
             lambda t, x, i, u: t.cat([x[:2], x[2:3] + u.sum(0), x[3:]])),
        Case("top-k", TopK(-1, 2), (apart(3, 6),), lambda t, x: t.topk(x, 2).values),
        Case("top-k-first", TopK(0, 2, largest=False), (apart(5, 3),),
             lambda t, x: t.topk(x, 2, 0, largest=False).values),
    ]  # fmt: skip


CASES = [
    *unary(), *kinks(), *binary(), *_matmul(), *convolutions(), *transposed(), *columns(),
    *pooling(), *_normalization(), *_reductions(), *_movement(), *_lookup(),
]  # fmt: skip
