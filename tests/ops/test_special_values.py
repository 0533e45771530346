"""NaN and infinities: of every op, by every candidate, they are where NumPy has them.

Wherever one element of one input is NaN or infinite, the same results are NaN or infinite on the
device. What shares a vec4, a tile or a row of zeros with such an element is not touched by it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers import check_op, run_graph, shared_device, single_op_graph, variants
from tests.lowering.op_cases import FAMILIES, Case

from vknn.ops.convolution.conv import Conv, ExactConv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.detection.image_proposals import ImageProposals
from vknn.ops.detection.proposal import Proposal
from vknn.ops.indexing.gather import SearchSorted
from vknn.ops.indexing.nonzero import Unique
from vknn.ops.random import RandomCategorical
from vknn.ops.recurrent.rnn import ACTIVATIONS, GRU, LSTM, RNN

pytestmark = [pytest.mark.device, pytest.mark.long]

SPECIALS = (np.nan, np.inf, -np.inf)
#: Inputs that have to be finite (docs/ops.md says so): what NumPy makes of others is no guide.
FINITE = {(RandomCategorical, 0), (ImageProposals, 2), (Proposal, 2)}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_third_input(family: str) -> None:
    """One of the three for it, in turn; test_each_input_with_each has them all."""
    for turn, (case, target) in enumerate(itertools.islice(_targets(family), 0, None, 3)):
        check(case, target, SPECIALS[turn % 3], seed=turn)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_candidates_for_gpus(every: int, family: str) -> None:
    """Those that this device's own kind is not offered, on it."""
    for turn, (case, target) in enumerate(itertools.islice(_targets(family), 0, None, every)):
        check(case, target, SPECIALS[(turn + 1) % 3], seed=turn, kind="discrete")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("special", SPECIALS)
def test_each_input_with_each(family: str, special: float) -> None:
    for seed, (case, target) in enumerate(_targets(family)):
        check(case, target, special, seed)


def _targets(family: str) -> Iterator[tuple[Case, int]]:
    """The cases of a family, each with each of its inputs of floats."""
    for case in FAMILIES[family]():
        for number, array in enumerate(case.arrays()):
            floats = array is not None and array.dtype.kind == "f" and array.size
            if floats and (type(case.op), number) not in FINITE and not _is_packed(case):
                yield case, number


def _is_packed(case: Case) -> bool:
    """Whether weights are packed as integers of few bits; images are finite beside these."""
    return isinstance(case.op, ExactConv) and case.op.weight_bits > 0


def check(case: Case, target: int, special: float, seed: int, kind: str = "") -> None:
    """``kind``: only candidates that another kind of device has and this one has not."""
    arrays = _inputs(case, target, special, seed)
    expected = case.op.reference(*arrays)
    graph = single_op_graph(case.op, arrays, case.constants)
    feeds = {f"x{n}": a for n, a in enumerate(arrays) if a is not None and n not in case.constants}
    limits = own = shared_device().limits
    if kind:
        limits = dataclasses.replace(own, kind=kind)
    tried = set(variants(graph, own)) if kind else ()
    for options in variants(graph, limits):
        if options in tried:
            continue
        results = run_graph(graph, limits, options, feeds)
        context = f"{case.op} [{options.algorithm}] input {target} {special}"
        for result, wanted in zip(results.values(), expected, strict=True):
            _compare(result, np.asarray(wanted), spreads(case, options, target), context)


def _inputs(case: Case, target: int, special: float, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrays: list[Any] = case.arrays()
    for number, array in enumerate(arrays):
        if array is not None and array.dtype.kind == "f":
            arrays[number] = rng.standard_normal(array.shape).astype(array.dtype)
    chosen = arrays[target]
    chosen.reshape(-1)[rng.integers(chosen.size)] = special
    if isinstance(case.op, SearchSorted):
        arrays[0].sort()
    return arrays


def spreads(case: Case, options: Any, target: int) -> bool:
    """Whether more may become special than in NumPy, as docs/ops.md says of these."""
    tiled = isinstance(case.op, Conv) and str(options.algorithm).startswith("winograd")
    depthwise = isinstance(case.op, ConvTranspose) and "depthwise" in str(options.algorithm)
    return tiled or (depthwise and target == 1)


def _compare(result: np.ndarray, wanted: np.ndarray, spreads: bool, context: str) -> None:
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(result, wanted, context)
        return
    plain = np.isfinite(wanted)
    if spreads:
        assert not np.isfinite(result[~plain]).any(), f"{context}: a special value is hidden"
        return
    seen, meant = np.where(plain, 0, result), np.where(plain, 0, wanted)
    np.testing.assert_array_equal(seen, meant, f"{context}: other special values")
    wrong = np.argwhere(~np.isfinite(result) & plain)
    assert not len(wrong), f"{context}: {len(wrong)} more, first at {tuple(wrong[0])}"


@pytest.mark.parametrize("special", SPECIALS)
@pytest.mark.parametrize("constants", [(), (1,)])
def test_weights_of_padding(constants: tuple[int, ...], special: float) -> None:
    """Padding is multiplied: beside it a special weight gives NaN, by whichever kernel."""
    for axes, strides in ((1, 1), (2, 1), (2, 2), (3, 1)):
        sizes = (7, 5, 4)[:axes]
        op = Conv((strides,) * axes, (1,) * 2 * axes, (1,) * axes)
        arrays = [np.ones((1, 5, *sizes), np.float32), np.ones((6, 5, *(3,) * axes), np.float32)]
        arrays[1].reshape(6, 5, -1)[2, 3, 0] = special
        wanted = np.isnan(op.reference(*arrays)[0])
        graph = single_op_graph(op, arrays, constants)
        feeds = {f"x{n}": array for n, array in enumerate(arrays) if n not in constants}
        for kind in sorted({shared_device().limits.kind, "discrete"}):
            limits = dataclasses.replace(shared_device().limits, kind=kind)
            for options in variants(graph, limits):
                if "winograd" not in str(options.algorithm):
                    (result,) = run_graph(graph, limits, options, feeds).values()
                    np.testing.assert_array_equal(np.isnan(result), wanted, options.algorithm)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("special", SPECIALS)
def test_activations_of_recurrent_cells(activation: str, special: float) -> None:
    """An element of the second step: what came before it stays."""
    for cell, gates, count in ((RNN, 1, 1), (GRU, 3, 2), (LSTM, 4, 3)):
        alphas, betas = (0.3,) * count, (0.7,) * count
        op = cell(
            activations=(activation,) * count,
            activation_alpha=alphas,
            activation_beta=betas,
            clip=50.0,
        )
        inputs = ((3, 2, 5), (1, 7 * gates, 5), (1, 7 * gates, 7))
        check(Case(op, inputs), 0, special, seed=3)


@pytest.mark.parametrize("number", range(6))
def test_unique_keeps_each_nan(number: int) -> None:
    x = np.random.default_rng(number).integers(0, 5, 17).astype(np.float32)
    x[[2, 3, 9, 16]] = [np.nan, np.inf, np.nan, -np.inf]
    check_op(Unique(), x)
