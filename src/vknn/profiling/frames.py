"""Every sample of a profile as a table: in a file, of pyarrow or of pandas where they are there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.named_files import replacing
from vknn.profiling.records import TimedRun

_TEXTS = ("where", "kernel", "label")
_WORK = ("flops", "nbytes")


def arrow_table(runs: Sequence[TimedRun]) -> Any:
    """A pyarrow.Table, a row for each command of each run; ``layers`` are lists of strings."""
    try:
        import pyarrow as pa
    except ImportError:
        raise VknnError("to_arrow needs pyarrow, which is missing: pip install pyarrow") from None
    columns = _columns(runs)
    strings = pa.string()
    typed = {"layers": pa.list_(strings), "where": strings, "kernel": strings, "label": strings}
    arrays = [pa.array(values, typed.get(name)) for name, values in columns.items()]
    return pa.table(arrays, names=list(columns))


def data_frame(runs: Sequence[TimedRun]) -> Any:
    """A pandas.DataFrame, a row for each command of each run; ``layers`` are tuples of strings."""
    try:
        import pandas as pd
    except ImportError:
        raise VknnError("to_dataframe needs pandas, which is missing: pip install pandas") from None
    return pd.DataFrame(_columns(runs))


def save_samples(path: Path, runs: Sequence[TimedRun]) -> None:
    """The table written to a file, by its name's end: .csv, where ``layers`` are a list of JSON's,
    or .parquet.

    Raises:
        vknn.VknnError: The name has another end, or pyarrow is needed and not installed.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        table = arrow_table(runs)
        from pyarrow import parquet

        with replacing(path) as file:
            parquet.write_table(table, file)
    elif suffix == ".csv":
        columns = _columns(runs)
        columns["layers"] = [json.dumps(names) for names in columns["layers"]]
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            rows = csv.writer(text)
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))
            text.detach()
    else:
        raise VknnError(f"{path}: samples are written as .csv or .parquet")


def _columns(runs: Sequence[TimedRun]) -> dict[str, Any]:
    """Values by column, in the order of runs and, within them, of the plan."""
    segments = runs[0].segments
    entries = [e for s in segments for e in s.entries]
    count, times = len(entries), len(runs)
    part = np.repeat(np.arange(len(segments)), [len(s.entries) for s in segments])
    none = np.zeros((0, 2))
    spans = np.concatenate([none, *(s.start + s.spans for r in runs for s in r.segments)])
    numbers = {
        "run": np.repeat(np.arange(times), count),
        "segment": np.tile(part, times),
        "command": np.tile(np.arange(count), times),
    }
    texts: dict[str, list[Any]] = {
        name: [_valid(getattr(e, name)) for e in entries] * times for name in _TEXTS
    }
    texts["layers"] = [tuple(map(_valid, e.layers)) for e in entries] * times
    work = {n: np.tile(np.array([getattr(e, n) for e in entries], np.int64), times) for n in _WORK}
    seconds = {"begin": spans[:, 0], "end": spans[:, 1], "seconds": spans[:, 1] - spans[:, 0]}
    return {**numbers, **texts, **work, **seconds}


def _valid(text: str) -> str:
    """Text that is UTF-8: names in model files need not be."""
    return text.encode(errors="backslashreplace").decode()
