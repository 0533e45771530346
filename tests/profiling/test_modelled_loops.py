"""Modelled times of kernels with a loop over results behind that of their products."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.profiling.test_modelled import ASSUMPTIONS, TEXT, machine, work

from vknn.profiling.invocation.counts import Counts, HotLoop
from vknn.profiling.invocation.tally import Tally
from vknn.profiling.modelled.rdna import kernel_cost
from vknn.profiling.modelled.times import ModelledTime, from_code

#: The loop of products, then one that makes exponentials of results, of more multiply-adds, and
#: stores them.
STORING = TEXT.replace(
    "BB2:\n",
    "BB4:\n"
    + "	v_fmac_f32_e32 v4, s12, v8                                  ; 5608100c\n" * 5
    + "	v_exp_f32_e32 v4, v4                                        ; 7e084b04\n"
    "	buffer_store_dwordx2 v[4:5], v0, s[4:7], 0 offen            ; e0741000 80010400\n"
    "	s_cbranch_scc1 BB4                                          ; bf85fff0\n"
    "BB2:\n",
)
#: One round of each: 4 products, 5 of an exponential.
PRODUCTS, ENDING = 4, 5


def timed(text: str, counts: Counts) -> ModelledTime:
    cost = kernel_cost(text, 64, machine(), ASSUMPTIONS)
    return from_code(cost, replace(work(1), counts=counts), machine(), ASSUMPTIONS)


def counts_of(stores: int) -> Counts:
    """100 rounds of products, and results of so many rounds of the other loop."""
    hot = Tally(multiply_adds=PRODUCTS, loads=2, load_bytes=32)
    ending = Tally(multiply_adds=ENDING, stores=1, store_bytes=8)
    whole = Tally().plus(hot, 100).plus(ending, stores)
    return Counts(whole, HotLoop(100, hot), (64, 1, 1), (HotLoop(stores, ending),))


def test_exponentials_are_not_the_products() -> None:
    cost = kernel_cost(STORING, 64, machine(), ASSUMPTIONS)
    plain = kernel_cost(TEXT, 64, machine(), ASSUMPTIONS)
    assert cost.loop == plain.loop
    assert cost.storing is not None and cost.storing.store_bytes == 8
    assert cost.adding is None and plain.storing is None


def test_a_loop_over_results_takes_time_of_its_own() -> None:
    """As many rounds as the bytes that are stored; those of the products stay what they are."""
    few, many = (timed(STORING, counts_of(n)) for n in (2, 12))
    cost = kernel_cost(STORING, 64, machine(), ASSUMPTIONS)
    assert few.rounds == many.rounds == 100
    assert cost.storing is not None
    cycles = 10 * cost.storing.latency
    assert many.latency - few.latency == pytest.approx(cycles / (machine().clock * 1e3))


def test_one_loop_that_stores_is_the_hottest() -> None:
    """Where no other multiplies, as of a kernel whose products are unrolled."""
    text = STORING.replace("s_cbranch_scc1 BB1 ", "s_nop 0 ")
    cost = kernel_cost(text, 64, machine(), ASSUMPTIONS)
    assert cost.loop is not None and cost.loop.store_bytes == 8 and cost.storing is None


def test_exponentials_outside_of_loops_are_no_rounds() -> None:
    """A compiler that unrolled the loop over results has their multiply-adds beside the loop."""
    ending = "	v_fmac_f32_e32 v4, s12, v8                                  ; 5608100c\n" * 40
    text = TEXT.replace("BB2:\n", "BB2:\n" + ending)
    assert timed(text, counts_of(8)).rounds == 100
    assert timed(TEXT, counts_of(8)).rounds == 110  # nothing of them is to be seen: rounds
