"""Records of batch jobs in stacked runs: for which jobs that is measured, and how full runs are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vknn.batching import filled, shape_of
from vknn.scale.records import Record

#: Records of a job at least whose runs are measured: it takes as long as some fifty of them.
_FEWEST = 1000


def filled_by(records: Sequence[Record], count: int) -> float:
    """Share of the places of stacked runs that these records take, 0 to 1; 1 of none."""
    return filled(Counter(shape_of(record.feeds) for record in records).values(), count)


def is_worth(total: int | None) -> bool:
    """Whether a job of so many records is to be measured; None: nobody knows how many."""
    return total is None or total >= _FEWEST
