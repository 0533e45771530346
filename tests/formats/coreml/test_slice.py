"""Slices, windows, reversed axes; parts joined, stacked, cut and repeated; both generations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.coreml_cases import Case, case, check, values
from tests.coreml_writer import layer, run, weights

from vknn.errors import ModelFormatError, ShapeError

SHAPES = [(5,), (4, 5), (3, 4, 5), (2, 3, 4, 5), (2, 1, 3, 4, 5)]


def numbers(*given: float) -> np.ndarray:
    return np.array(given, np.float32)


def sliced(x: np.ndarray, p: dict[str, list[int]]) -> np.ndarray:
    """The specification's slice, as an index of NumPy."""
    index: list[Any] = []
    for a in range(x.ndim):
        if p["squeezeMasks"][a]:
            index.append(p["beginIds"][a])
            continue
        begin = None if p["beginMasks"][a] else p["beginIds"][a]
        end = None if p["endMasks"][a] else p["endIds"][a]
        index.append(slice(begin, end, p["strides"][a]))
    return np.atleast_1d(x[tuple(index)])


def settings(shape: tuple[int, ...], seed: int) -> dict[str, list[int]]:
    """A slice with something in it; some axes backwards, masked, squeezed."""
    rng = np.random.default_rng([seed, *shape])
    p: dict[str, list[int]] = {
        key: []
        for key in ("beginIds", "endIds", "strides", "beginMasks", "endMasks", "squeezeMasks")
    }
    for size in shape:
        stride = int(rng.choice([1, 1, 2, 3, -1, -2]))
        begin = int(rng.integers(0, size))
        end = begin + int(rng.integers(1, size + 2)) if stride > 0 else begin - 1
        if stride < 0 and end < 0:
            end = -size - 1
        begin = begin - size if rng.random() < 0.3 else begin
        p["strides"].append(stride)
        p["beginIds"].append(begin)
        p["endIds"].append(end)
        p["beginMasks"].append(int(rng.random() < 0.25))
        p["endMasks"].append(int(rng.random() < 0.25))
        p["squeezeMasks"].append(int(rng.random() < 0.2))
    return p


@pytest.mark.parametrize("shape", SHAPES)
def test_static_slices(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    cases = [case("sliceStatic", sliced(x, p), **p) for p in (settings(shape, s) for s in range(9))]
    one = [1] * len(shape)
    everything = {"beginIds": one, "endIds": one, "strides": one, "beginMasks": one,
                  "endMasks": one, "squeezeMasks": [0] * len(shape)}  # fmt: skip
    cases.append(case("sliceStatic", x, **everything))
    back = everything | {"strides": [-1] * len(shape)}
    cases.append(case("sliceStatic", np.flip(x), **back))
    point = everything | {"squeezeMasks": one, "beginIds": [-1] * len(shape)}
    cases.append(case("sliceStatic", x.reshape(-1)[-1:], **point))
    check({"x": x}, cases, tolerance=0)


def test_the_examples_of_the_specification() -> None:
    x = values(5, 5, 5)
    p = {"beginIds": [1, 2, 3], "beginMasks": [1, 0, 1], "endIds": [3, -3, 2],
         "endMasks": [0, 1, 1], "strides": [2, 2, 2]}  # fmt: skip
    check({"x": x}, [
        case("sliceStatic", x[:3:2, 2::2, ::2], **p, squeezeMasks=[0, 0, 0]),
        case("sliceStatic", x[:3:2, 2, ::2], **p, squeezeMasks=[0, 1, 0]),
        case("sliceStatic", x[:3:2, 2::2, ::2], **p),
    ], tolerance=0)  # fmt: skip


ORDER = ("beginIds", "endIds", "strides", "beginMasks", "endMasks", "squeezeMasks")


@pytest.mark.parametrize("given", range(1, 7))
def test_dynamic_slices(given: int) -> None:
    """So many of the lists are inputs; fields of the same meaning do not count then."""
    for seed, shape in enumerate(((5,), (3, 4, 5))):
        p, x = settings(shape, given + seed), values(*shape)
        fields = {key: p[key] for key in ORDER[given:]}
        fields |= {key: [1] * len(shape) for key in ORDER[1:given]}
        feeds = {"x": x} | {key: numbers(*p[key]) for key in ORDER[:given]}
        made = case("sliceDynamic", sliced(x, p), "x", *ORDER[:given], **fields)
        check(feeds, [made], tolerance=0)


def test_masks_and_strides_of_dynamic_slices_may_be_longer_than_the_rank() -> None:
    x, p = values(3, 4), {"strides": [1, 2, 1, 1, 1], "endIds": [3, 4]}
    masks = {"beginMasks": [1, 0, 1], "endMasks": [1, 0, 0, 1], "squeezeMasks": [0, 0, 1, 1, 1]}
    made = case("sliceDynamic", x[:, 1:4:2], "x", "begin", **p, **masks)
    check({"x": x, "begin": numbers(2, 1)}, [made], tolerance=0)
    with pytest.raises(ShapeError, match="endMasks"):
        run(layer("sliceStatic", beginIds=[0, 0], endIds=[1, 1], endMasks=[1, 1, 1]), {"x": x})
    with pytest.raises(ShapeError, match="strides"):
        run(layer("sliceStatic", beginIds=[0, 0], endIds=[1, 1], strides=[1, 1, 1]), {"x": x})


def test_slices_by_size() -> None:
    for shape in SHAPES:
        x, cases = values(*shape), []
        for axis in range(-len(shape), len(shape)):
            last = shape[axis] - 1
            wanted = np.take(x, range(last, last + 1), axis)
            cases.append(case("sliceBySize", wanted, "x", "last" + str(axis), size=1, axis=axis))
            size = max(1, last)
            wanted = np.take(x, range(size), axis)
            cases.append(case("sliceBySize", wanted, "x", "zero", size=size, axis=axis))
            below = Case(
                "loadConstantND", (), (numbers(-1),), {"shape": [1], "data": weights([-1])}
            )
            cases.append(below)
            wanted, place = np.take(x, [last], axis), f"y{len(cases) - 1}.0"
            cases.append(case("sliceBySize", wanted, "x", place, size=1, axis=axis))
        lasts = {f"last{a}": numbers(shape[a] - 1) for a in range(-len(shape), len(shape))}
        check({"x": x, "zero": numbers(0)} | lasts, cases, tolerance=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_and_reversed_axes(shape: tuple[int, ...]) -> None:
    x, cases = values(*shape), []
    for axis in range(-len(shape), len(shape)):
        for size, step in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (shape[axis], 4)):
            if size > shape[axis]:
                continue
            starts = range(0, shape[axis] - size + 1, step)
            parts = [np.take(x, range(s, s + size), axis) for s in starts]
            wanted = np.stack(parts, axis % len(shape))
            cases.append(case("slidingWindows", wanted, axis=axis, windowSize=size, step=step))
    for flags in itertools.islice(itertools.product((0, 1), repeat=len(shape)), 9):
        wanted = np.flip(x, [a for a, flag in enumerate(flags) if flag])
        cases.append(case("reverse", wanted, reverseDim=list(flags)))
    check({"x": x}, cases, tolerance=0)


def test_reversed_sequences() -> None:
    for shape in SHAPES[1:]:
        x = values(*shape)
        for batch, sequence in itertools.combinations(range(len(shape)), 2):
            lengths = np.arange(shape[batch]) * 2 % (shape[sequence] + 1)
            y = x.copy()
            for b, length in enumerate(lengths):
                part = np.moveaxis(y, (batch, sequence), (0, 1))[b]
                part[:length] = part[:length][::-1].copy()
            signs = {"batchAxis": batch - len(shape), "sequenceAxis": sequence - len(shape)}
            cases = [
                case("reverseSeq", y, "x", "n", batchAxis=batch, sequenceAxis=sequence),
                case("reverseSeq", y, "x", "n", **signs),
            ]
            check({"x": x, "n": numbers(*lengths)}, cases, tolerance=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_joined_and_cut(shape: tuple[int, ...]) -> None:
    x, y, z = (values(*shape, seed=s) for s in range(3))
    rank, cases = len(shape), []
    for axis in range(-rank, rank):
        cases.append(case("concatND", np.concatenate((x, y, z), axis), "x", "y", "z", axis=axis))
        mixed = np.stack((x, y), axis % rank + 1).reshape(
            [2 * s if a == axis % rank else s for a, s in enumerate(shape)]
        )
        cases.append(case("concatND", mixed, "x", "y", axis=axis, interleave=True))
        first = max(1, shape[axis] - 2)
        sizes = [first, shape[axis] - first] if shape[axis] > 1 else [1]
        cut = tuple(np.split(x, [first], axis)[: len(sizes)])
        cases.append(case("splitND", cut, axis=axis, splitSizes=sizes, numSplits=99))
        for count in {1, 2, 3, shape[axis]} & set(range(shape[axis] + 1)):
            even = tuple(np.array_split(x, count, axis))
            cases.append(case("splitND", even, axis=axis, numSplits=count))
    cases += [
        case("stack", np.stack((x, y, z), axis), "x", "y", "z", axis=axis)
        for axis in range(-rank - 1, rank + 1)
    ]
    orders = itertools.islice(itertools.permutations(range(rank)), 0, 120, 7)
    cases += [case("transpose", x.transpose(axes), axes=list(axes)) for axes in orders]
    check({"x": x, "y": y, "z": z}, cases, tolerance=0)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sliceStatic", {"beginIds": [0, 0], "endIds": [1, 1], "strides": [0, 1]}, "stride of 0"),
    ("sliceStatic", {"beginIds": [0], "endIds": [1], "strides": [1]}, "2 numbers"),
    ("sliceStatic", {"beginIds": [0, 0], "strides": [1, 1]}, "no endIds"),
    ("sliceStatic", {"endIds": [0, 0], "strides": [1, 1]}, "no beginIds"),
    ("sliceStatic", {"beginIds": [2, 0], "endMasks": [1, 1], "squeezeMasks": [1, 0]}, "element 2"),
    ("slidingWindows", {"axis": 0, "windowSize": 3, "step": 1}, "window of 3"),
    ("slidingWindows", {"axis": 0, "windowSize": 2, "step": 0}, "step of 0"),
    ("slidingWindows", {"axis": 0, "windowSize": 0, "step": 1}, "window of 0"),
    ("reverse", {"reverseDim": [True]}, "reverseDim"),
    ("splitND", {"axis": 1, "numSplits": 4}, "cannot split"),
    ("splitND", {"axis": 1}, "cannot split"),
    ("splitND", {"axis": 1, "splitSizes": [2, 2]}, "make up"),
    ("splitND", {"axis": 1, "numSplits": 3}, "names 2 outputs"),
    ("splitND", {"axis": 2, "numSplits": 3}, "does not exist"),
    ("transpose", {"axes": [0, 0]}, "permute"),
    ("transpose", {"axes": [0]}, "permute"),
    ("slice", {"axis": 0, "endIndex": 1, "stride": 1}, "rank 3"),
    ("slice", {"axis": 2, "endIndex": 1}, "stride"),
    ("slice", {"axis": 2, "startIndex": 2, "endIndex": 1, "stride": 1}, "nothing"),
    ("flatten", {}, "rank 3"),
    ("permute", {"axis": [0, 1, 2, 3]}, "rank 5"),
    ("reshape", {"targetShape": [1, 2, 3]}, "rank 5"),
    ("sequenceRepeat", {"nRepetitions": 2}, "rank 5"),
]


@pytest.mark.parametrize(("kind", "params", "message"), REFUSED)
def test_refused(kind: str, params: dict[str, Any], message: str) -> None:
    outputs = ("y", "z") if kind == "splitND" else ("y",)
    with pytest.raises(ShapeError, match=f"(?s){kind}.*{message}"):
        run(layer(kind, outputs=outputs, **params), {"x": values(2, 3)}, outputs)


def test_refused_with_two_inputs() -> None:
    x = {"a": values(2, 3), "b": values(2, 4), "n": numbers(1, 1), "big": numbers(5)}
    both: list[tuple[str, tuple[str, str], dict[str, Any]]] = [
        ("stack", ("a", "b"), {}),
        ("concatND", ("a", "b"), {"axis": 0}),
        ("concatND", ("a", "b"), {"axis": 1, "interleave": True}),
        ("concat", ("a", "b"), {}),
        ("reverseSeq", ("a", "n"), {"batchAxis": 1, "sequenceAxis": 0}),
        ("reverseSeq", ("a", "n"), {"batchAxis": 0, "sequenceAxis": 0}),
        ("reverseSeq", ("a", "big"), {"batchAxis": 0, "sequenceAxis": 1}),
        ("sliceBySize", ("a", "n"), {"size": 1, "axis": 0}),
        ("sliceBySize", ("a", "big"), {"size": 3, "axis": 0}),
        ("sliceBySize", ("a", "big"), {"size": 0, "axis": 0}),
        ("sliceDynamic", ("a", "big"), {"endIds": [1, 1], "strides": [1, 1]}),
    ]
    for kind, inputs, params in both:
        with pytest.raises(ShapeError, match=kind):
            run(layer(kind, inputs, **params), {n: x[n] for n in inputs})
    for kind in ("stack", "concatND", "concat", "reverseSeq", "sliceDynamic"):
        with pytest.raises(ModelFormatError, match=kind):
            run(layer(kind, ("a",)), {"a": x["a"]})


def in_blobs(x: np.ndarray, sequence: int, batch: int) -> np.ndarray:
    return x.reshape(sequence, batch, *x.shape[-3:])


@pytest.mark.parametrize("rank5", [True, False])
@pytest.mark.parametrize("batch", [1, 2])
def test_older_layers(rank5: bool, batch: int) -> None:
    """Of [Seq, Batch, C, H, W]; expectations batch by batch."""
    x = values(3, batch, 4, 2, 6)

    def each(f: Any) -> np.ndarray:
        return np.stack([f(x[:, b]) for b in range(batch)], 1)

    def last(a: np.ndarray) -> np.ndarray:
        return a.transpose(0, 2, 3, 1)

    cases = [
        case("reshape", each(lambda a: a.reshape(3, 2, 3, 8)), targetShape=[2, 3, 8]),
        case("reshape", each(lambda a: a.reshape(6, 2, 3, 4)), targetShape=[6, 2, 3, 4]),
        case("reshape", each(lambda a: a.reshape(2, 4, 3, 6)), targetShape=[2, 4, 3, -1]),
        case("reshape", each(lambda a: last(a).reshape(3, 3, 8, 2).transpose(0, 3, 1, 2)),
             targetShape=[2, 3, 8], mode=1),
        case("reshape", each(lambda a: last(a).reshape(1, 9, 4, 4).transpose(0, 3, 1, 2)),
             targetShape=[1, 4, 9, 4], mode="CHANNEL_LAST"),
        case("flatten", x.reshape(3, batch, 48, 1, 1)),
        case("flatten", x.transpose(0, 1, 3, 4, 2).reshape(3, batch, 48, 1, 1), mode=1),
        case("permute", x),
        case("permute", x.transpose(0, 1, 4, 2, 3), axis=[0, 3, 1, 2]),
        case("permute", x.transpose(4, 1, 2, 3, 0), axis=[3, 1, 2, 0]),
        case("permute", x.transpose(0, 1, 4, 3, 2), axis=[0, 3, 2, 1]),
        case("concat", np.concatenate((x, x, x), 2), "x", "x", "x"),
        case("concat", np.concatenate((x, x), 0), "x", "x", sequenceConcat=True),
        case("split", tuple(np.split(x, 2, 2)), nOutputs=2),
        case("split", tuple(np.split(x, 4, 2)), nOutputs=4),
        case("sequenceRepeat", np.tile(x, (3, 1, 1, 1, 1)), nRepetitions=3),
        case("sequenceRepeat", x),
        case("slice", x[:, :, 1:3], startIndex=1, endIndex=3, stride=1),
        case("slice", x[:, :, :, -1:], startIndex=-1, endIndex=9, stride=1, axis="HEIGHT_AXIS"),
        case("slice", x[..., 1:-1:2], startIndex=1, endIndex=-1, stride=2, axis="WIDTH_AXIS"),
    ]  # fmt: skip
    check({"x": x}, cases, rank5=rank5, tolerance=0)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (3, 2, 5), (2, 3, 2, 5)])
def test_older_layers_of_other_ranks(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    cases = [case("slice", x[..., 1:4], startIndex=1, endIndex=4, stride=1, axis=2)]
    if len(shape) >= 3:
        cases.append(case("flatten", x.reshape(*shape[:-3], -1, 1, 1)))
        moved = np.moveaxis(x, -3, -1).reshape(*shape[:-3], -1, 1, 1)
        cases.append(case("flatten", moved, mode="CHANNEL_LAST"))
        cases.append(case("concat", np.concatenate((x, x), -3), "x", "x"))
        cases.append(case("split", tuple(np.split(x, 3, -3)), nOutputs=3))
    check({"x": x}, cases, tolerance=0)


def test_older_layers_that_contradict_themselves() -> None:
    x = {"x": values(1, 1, 4, 2, 6)}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("reshape", {"targetShape": [2, 2, 2]}),
        ("reshape", {"targetShape": [48]}),
        ("reshape", {"targetShape": [-1, -1, 2]}),
        ("permute", {"axis": [0, 1, 2]}),
        ("permute", {"axis": [0, 1, 1, 2]}),
        ("permute", {"axis": [0, 1, 2, 4]}),
        ("split", {"nOutputs": 3}),
        ("split", {}),
        ("slice", {"stride": 1, "endIndex": 2, "axis": 3}),
        ("sequenceRepeat", {"nRepetitions": 1 << 40}),
    ]
    for kind, params in wrong:
        with pytest.raises(ShapeError, match=kind):
            run(layer(kind, **params), x)
