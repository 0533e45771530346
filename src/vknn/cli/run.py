"""``vknn run``"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from vknn.cli.arguments import add_inputs, add_model, opened
from vknn.cli.feeds import read_feeds
from vknn.cli.inputs import expanded
from vknn.cli.output import show, write_json
from vknn.errors import InputError
from vknn.named_files import named

#: Outputs of at most this many elements along one axis are shown as scores.
MAX_SCORES = 1 << 20


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "files", type=Path, nargs="*", metavar="FILE", help="run on each: pictures, arrays, folders"
    )
    add_inputs(parser, random=False)
    group = parser.add_argument_group("results")
    group.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs here")
    group.add_argument("--top", type=int, default=5, metavar="N", help="best scores to show (5)")
    group.add_argument("--labels", type=Path, help="a text file with a label a line")


def run(args: argparse.Namespace) -> None:
    """Run of the model; its outputs are shown or written to a file."""
    labels = _labels(args.labels)
    if args.files:
        _run_files(args, labels)
        return
    with opened(args) as session:
        feeds = read_feeds(args, session)
        begin = time.perf_counter()
        outputs = session.run(feeds)
        seconds = time.perf_counter() - begin
        device = session.device.name if session.device is not None else "NumPy"
    if args.output is not None:
        with named(args.output), args.output.open("wb") as file:
            np.savez(file, **{n: _array(v) for n, v in outputs.items()})  # type: ignore[arg-type]
    rows = [_summary(name, value, args.top, labels) for name, value in outputs.items()]
    if args.json:
        write_json({"device": device, "seconds": seconds, "outputs": rows})
        return
    for row in rows:
        show(_statistics([row]))
        if row["top"] and args.output is None:
            show(_scores(row["top"]))
    show(f"{1e3 * seconds:.0f} ms on {device}, compiling included")


def _run_files(args: argparse.Namespace, labels: Sequence[str] | None) -> None:
    """Run of the model on each of the files, with a line (of JSON) for each."""
    if args.output is not None:
        raise InputError("--output takes the results of one run: give its input with --input")
    files = expanded(args.files)
    with opened(args) as session:
        for path in files:
            outputs = session.run(read_feeds(args, session, path))
            rows = [_summary(name, value, args.top, labels) for name, value in outputs.items()]
            if args.json:
                print(json.dumps({"file": str(path), "outputs": rows}), flush=True)
            else:
                print(f"{path}: {'; '.join(map(_line, rows))}", flush=True)


def _line(row: dict[str, Any]) -> str:
    """An output in few words: its best scores, its text, or what there is of it."""
    if row["top"]:
        best = (f"{e['label'] or e['index']} {e['score']:.4g}" for e in row["top"])
        return f"{row['name']} {', '.join(best)}"
    if "value" in row:
        return f"{row['name']} {row['value']}"
    text = f"{row['name']} {row['dtype']}{row['shape']}"
    return text + (f" from {row['min']:.4g} to {row['max']:.4g}" if "min" in row else "")


def _labels(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text file: {error}") from error


def _array(value: Any) -> np.ndarray:
    """An output as an array: of a dictionary (label -> score) the scores."""
    return np.array(list(value.values())) if isinstance(value, dict) else np.asarray(value)


def _summary(name: str, value: Any, top: int, labels: Sequence[str] | None) -> dict[str, Any]:
    if isinstance(value, dict):
        labels = labels or [str(label) for label in value]
    array = _array(value)
    found: dict[str, Any] = {
        "name": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "top": [],
    }
    if array.size and array.dtype.kind in "fiub":
        wide = array.astype(np.float64)
        found.update(min=float(wide.min()), max=float(wide.max()), mean=float(wide.mean()))
    if array.ndim == 0 and array.dtype.kind in "US":
        found["value"] = str(array)
    if _is_scores(array):
        found["top"] = _best(array.reshape(-1), top, labels)
    return found


def _is_scores(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiu" and 1 < array.size == max(array.shape) <= MAX_SCORES


def _best(scores: np.ndarray, count: int, labels: Sequence[str] | None) -> list[dict[str, Any]]:
    # Stable, so that equal scores come in order of their index; NaN last.
    order = np.argsort(-scores.astype(np.float64), kind="stable")[: max(0, count)]
    known = labels or ()
    return [
        {"index": int(i), "score": float(scores[i]), "label": known[i] if i < len(known) else None}
        for i in order
    ]


def _statistics(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table("output", "shape", "dtype", "min", "max", "mean")
    for row in rows:
        numbers = [f"{row[k]:.6g}" if k in row else "" for k in ("min", "max", "mean")]
        shape = row["value"] if "value" in row else ", ".join(map(str, row["shape"]))
        table.add_row(row["name"], shape, row["dtype"], *numbers)
    return table


def _scores(top: Sequence[dict[str, Any]]) -> Table:
    table = Table("index", "score", "label")
    for entry in top:
        table.add_row(str(entry["index"]), f"{entry['score']:.6g}", entry["label"] or "")
    return table
