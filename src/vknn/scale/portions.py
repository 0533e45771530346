"""Portions of work on Ray: how many records are handed on, and written, together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.scale.first_record import FirstRecord

#: Bytes that are handed on together at most, and at least.
BLOCK_BYTES, _LEAST_BYTES = 16 << 20, 16 << 10
#: Records that are handed on together at most: what a worker does at a time, and loses at its end.
_MOST_ROWS = 1024
#: Portions that each worker has under way or waiting, and those that are being read. All of them
#: are to find a place in Ray's store, of which Ray Data takes half: else workers have none, or wait
#: for one whose process ended.
_OF_WORKER, _OF_READER, _STORE_SHARE = 4, 4, 0.5
#: Of the bytes of so many records, as what is handed on is given.
_SHARE = 0.9
#: Rows of a file of answers at least, and bytes at most of so many.
_FILE_ROWS, _FILE_BYTES = 512, 1 << 26
#: Seconds of NumPy's that records may take which are handed on, or wait for a file, together, on
#: NumPy and on devices, which are faster.
_HOST_SECONDS, _DEVICE_SECONDS = 60.0, 600.0
#: So many rows that take no longer are together in a file, too: there may be millions.
_QUICK_ROWS, _QUICK_SECONDS = 8192, 10.0


@dataclass(frozen=True)
class Portions:
    """Sizes of portions.

    Attributes:
        block_bytes: Bytes that Ray hands on together.
        file_rows: Rows of a file of answers at least.
        block_rows: Records that readers hand on together at most.
    """

    block_bytes: int = BLOCK_BYTES
    file_rows: int = _FILE_ROWS
    block_rows: int = _MOST_ROWS


#: Where nothing is known of the records.
USUAL = Portions()


def most_bytes(store: float, workers: int) -> int:
    """Bytes of a portion at most, for so many workers and bytes of Ray's store."""
    own = int(_STORE_SHARE * store) // (_OF_WORKER * workers + _OF_READER)
    return min(BLOCK_BYTES, own) if store else BLOCK_BYTES


def portions_of(
    first: FirstRecord | None,
    seconds: float,
    batch_size: int,
    on_host: bool,
    most: int = BLOCK_BYTES,
) -> Portions:
    """The portions of a job.

    Ray parts records by their bytes, and hundreds of thousands of small ones may be one portion:
    the work of one worker while others have none, and lost where that ends.

    Args:
        first: The first record; None: nothing is known.
        seconds: NumPy's for it.
        batch_size: Records of a batch: no portion has fewer.
        on_host: Whether workers compute with NumPy.
        most: Bytes of a portion at most, unless a batch has more.
    """
    if first is None:
        return USUAL
    patience = _HOST_SECONDS if on_host else _DEVICE_SECONDS
    each = max(seconds, 1e-6)
    rows = max(batch_size, int(min(_MOST_ROWS, patience / each)))
    own = first.rows.table
    kept = own.select(list(first.layout.kept))
    answer = sum(np.asarray(value).nbytes for value in first.outputs.values())
    whole = batch_size * max(1, min(rows, most // max(1, own.nbytes)) // batch_size)
    # A little less: Ray waits for more where a portion lacks a byte, and parts what is too much.
    read = sum(np.asarray(value).nbytes for value in first.record.feeds.values())
    size = max(
        _LEAST_BYTES, int(_SHARE * max(whole * own.nbytes, batch_size * read)), batch_size * answer
    )
    together = max(min(_FILE_ROWS, rows), int(min(_QUICK_ROWS, _QUICK_SECONDS / each)))
    fitting = _FILE_BYTES // max(1, answer + int(kept.nbytes))
    return Portions(min(BLOCK_BYTES, size), max(1, min(together, fitting)), whole)
