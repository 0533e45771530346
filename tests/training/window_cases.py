"""Convolutions and pooling, and the same functions in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.training.case import Case, apart, normal, random

from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.im2col import Col2Im, Im2Col
from vknn.ops.pooling import pool as p

#: Axes, strides, pads, dilations, groups, kernel.
CONVOLUTIONS = [
    ((9,), (1,), (0, 0), (1,), 1, (3,)),
    ((10,), (3,), (2, 1), (2,), 2, (2,)),
    ((6, 7), (1, 1), (0, 0, 0, 0), (1, 1), 1, (1, 1)),
    ((6, 7), (2, 3), (0, 0, 0, 0), (1, 1), 1, (1, 1)),
    ((6, 7), (1, 1), (1, 1, 1, 1), (1, 1), 1, (3, 3)),
    ((9, 8), (2, 3), (1, 0, 2, 1), (2, 1), 2, (3, 2)),
    ((7, 7), (2, 2), (0, 1, 0, 1), (1, 2), 4, (2, 3)),
    ((4, 5, 4), (1, 2, 1), (1, 0, 0, 0, 1, 1), (1, 1, 2), 2, (2, 3, 2)),
]


def _pads(t: Any, x: Any, pads: tuple[int, ...]) -> Any:
    axes = len(pads) // 2
    widths = [w for i in reversed(range(axes)) for w in (pads[i], pads[i + axes])]
    return t.nn.functional.pad(x, widths)


def convolutions() -> list[Case]:
    cases = []
    for number, (image, strides, pads, dilations, group, kernel) in enumerate(CONVOLUTIONS):
        x, w = normal(2, 4, *image), normal(8, 4 // group, *kernel)
        bias = normal(8) if number % 2 else None

        def peer(t, x, w, b=None, s=strides, p=pads, d=dilations, g=group):
            function = getattr(t.nn.functional, f"conv{len(s)}d")
            return function(_pads(t, x, p), w, b, s, 0, d, g)

        op = Conv(strides, pads, dilations, group)
        cases.append(Case(f"conv-{number}", op, (x, w, bias), peer))
    return cases


def transposed() -> list[Case]:
    cases = []
    extras = [(0,), (2,), (0, 0), (3, 1), (0, 0), (1, 2), (0, 1), (0, 0, 1)]
    for number, (image, strides, pads, dilations, group, kernel) in enumerate(CONVOLUTIONS):
        small = tuple((i + 1) // 2 + 1 for i in image)
        x, w = normal(2, 4, *small), normal(4, 6 // (2 if group > 1 else 1), *kernel)
        group = 2 if group > 1 else 1
        bias = normal(6) if number % 2 else None
        extra = extras[number]

        def peer(t, x, w, b=None, s=strides, p=pads, d=dilations, g=group, e=extra):
            axes = len(s)
            function = getattr(t.nn.functional, f"conv_transpose{axes}d")
            y = function(x, w, None, s, 0, 0, g, d)
            y = t.nn.functional.pad(y, [v for i in reversed(range(axes)) for v in (0, e[i])])
            cut = [slice(p[i], y.shape[2 + i] - p[i + axes]) for i in range(axes)]
            y = y[(..., *cut)]
            return y if b is None else y + b.reshape(1, -1, *[1] * axes)

        op = ConvTranspose(strides, pads, dilations, group, extra)
        cases.append(Case(f"transposed-{number}", op, (x, w, bias), peer))
    return cases


def columns() -> list[Case]:
    window = ((2, 3), (2, 1), (1, 0, 0, 1), (1, 2))

    def peer(t: Any, x: Any) -> Any:
        return t.nn.functional.unfold(_pads(t, x, (1, 0, 0, 1)), (2, 3), (1, 2), 0, (2, 1))

    def back(t: Any, x: Any) -> Any:
        image = t.nn.functional.fold(x, (7, 8), (2, 3), (1, 2), 0, (2, 1))
        return image[:, :, 1:, :7]

    return [
        Case("im2col", Im2Col(*window), (normal(2, 3, 6, 7),), peer),
        Case("col2im", Col2Im(*window, (6, 7)), (normal(2, 18, 12),), back),
    ]


def pooling() -> list[Case]:
    def largest(kernel, strides, pads, dilations=None):
        def peer(t: Any, x: Any) -> Any:
            axes = len(kernel)
            widths = [w for i in reversed(range(axes)) for w in (pads[i], pads[i + axes])]
            x = t.nn.functional.pad(x, widths, value=-1e30)
            function = getattr(t.nn.functional, f"max_pool{axes}d")
            return function(x, kernel, strides, 0, dilations or 1)

        return peer

    def mean(kernel, strides, pads, include):
        def peer(t: Any, x: Any) -> Any:
            axes = len(kernel)
            w = t.ones(x.shape[1], 1, *kernel)
            function = getattr(t.nn.functional, f"conv{axes}d")

            def sums(x):
                return function(_pads(t, x, pads), w, None, strides, 0, 1, x.shape[1])

            count = sums(t.ones_like(x)) if not include else float(np.prod(kernel))
            return sums(x) / count

        return peer

    windows = [
        ((7,), (2,), (2,), (0, 0)),
        ((8,), (3,), (2,), (1, 1)),
        ((6, 7), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((7, 6), (3, 2), (2, 1), (1, 0, 1, 1)),
        ((5, 5), (2, 3), (3, 3), (0, 1, 1, 1)),
        ((4, 5, 6), (2, 2, 3), (2, 1, 2), (1, 0, 0, 0, 1, 1)),
    ]
    cases = []
    for i, (image, kernel, strides, pads) in enumerate(windows):
        x = apart(2, 3, *image)
        cases.append(Case(f"max-pool-{i}", p.MaxPool(kernel, strides, pads), (x,),
                          largest(kernel, strides, pads)))  # fmt: skip
        for include in (False, True):
            op = p.AveragePool(kernel, strides, pads, include)
            peer = mean(kernel, strides, pads, include)
            cases.append(Case(f"average-pool-{i}-{include:d}", op, (x,), peer))
    dilated = p.MaxPool((2, 3), (1, 2), (1, 1, 0, 0), (2, 2))
    ties = np.asarray(random.integers(0, 3, (2, 2, 6, 6)), np.float32)
    cases += [
        Case("max-pool-dilated", dilated, (apart(1, 2, 7, 8),),
             largest((2, 3), (1, 2), (1, 1, 0, 0), (2, 2))),
        Case("max-pool-ties", p.MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), (ties,),
             lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), smooth=False),
        Case("global-max", p.GlobalMaxPool(), (apart(2, 3, 4, 5),),
             lambda t, x: t.nn.functional.adaptive_max_pool2d(x, 1)),
        Case("global-average", p.GlobalAveragePool(), (normal(2, 3, 4, 5),),
             lambda t, x: x.mean((2, 3), keepdim=True)),
        Case("global-average-3d", p.GlobalAveragePool(), (normal(2, 3, 2, 4, 5),),
             lambda t, x: x.mean((2, 3, 4), keepdim=True)),
    ]  # fmt: skip
    return cases
