"""Damaged files with variables, tables and signatures: nothing but a VknnError, and quickly."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.formats.tflite import resource_nets as nets
from tests.formats.tflite.fuzzing import attempt, check_damaged, check_truncated

pytestmark = pytest.mark.long


def growing() -> bytes:
    """Variables of open shape, a CALL_ONCE."""
    return nets.growing().file()


def initialized() -> bytes:
    """A variable that a CALL_ONCE fills."""
    return nets.totals().file()


def table() -> bytes:
    """A hash table."""
    return nets.looked_up([(["a", "b"], [1, 2])], nets.STRING).file()


@pytest.mark.parametrize(
    "make", [nets.cached_attention, nets.two_signatures, growing, initialized, table]
)
def test_damaged_bytes(make: Callable[[], bytes]) -> None:
    check_damaged(make(), random.Random(make.__name__))


@pytest.mark.parametrize("make", [nets.two_signatures, growing, initialized, table])
def test_truncated(make: Callable[[], bytes]) -> None:
    check_truncated(make())
    assert attempt(make())
