"""``vknn run``"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers.labels import read_labels
from vknn.cli.arguments import add_inputs, add_model, add_signature, opened
from vknn.cli.asking import Asking, add_answers
from vknn.cli.complaints import USER_ERROR, complain
from vknn.cli.feeds import Given, given_inputs, with_shot
from vknn.cli.inputs import expanded
from vknn.cli.output import show, write_json
from vknn.cli.shots import Shot, shots
from vknn.cli.summary import as_array, line, scores, statistics, summary
from vknn.crosscheck.kept_inputs import without_objects
from vknn.errors import InputError
from vknn.named_files import replacing
from vknn.pictures import UnreadableFileError
from vknn.session import Session

_TOP = 5


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_signature(parser)
    parser.add_argument(
        "files",
        type=Path,
        nargs="*",
        default=[],
        metavar="FILE",
        help="run on each: pictures (of animated ones each frame), arrays, folders",
    )
    add_inputs(parser, random=False)
    group = parser.add_argument_group("results")
    group.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs here")
    group.add_argument("--top", type=int, metavar="N", help=f"best scores to show ({_TOP})")
    group.add_argument("--labels", type=Path, metavar="FILE", help="names of classes, one a line")
    add_answers(group)


def run(args: argparse.Namespace) -> int:
    """Run of the model; its outputs are shown, drawn or written to a file."""
    labels = None if args.labels is None else read_labels(args.labels)
    if args.files:
        return _run_files(args, labels)
    with opened(args) as session:
        asking = Asking(args, session, labels, [], many=False)
        given = given_inputs(args, session, asking.recipe)
        begin = time.perf_counter()
        outputs = session.run(given.feeds)
        seconds = time.perf_counter() - begin
        device = session.device.name if session.device is not None else "NumPy"
        answer = asking.answer(outputs, given)
    drawn = asking.drawn(Shot(given.path or Path("drawing"), given.picture), answer)
    if args.output is not None:
        arrays = {n: without_objects(n, as_array(v)) for n, v in outputs.items()}
        with replacing(args.output) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    rows = _rows(outputs, args, labels)
    if args.json:
        told = asking.told(answer, drawn)
        write_json({"device": device, "seconds": seconds, "outputs": rows, **told})
        return 0
    for row in rows:
        show(statistics([row]))
        if row["top"] and args.output is None:
            show(scores(row["top"]))
    if answer is not None and answer.task != "classification":
        show(f"{asking.name}: {answer}")
    show(f"{1e3 * seconds:.0f} ms on {device}, compiling included")
    return 0


def _run_files(args: argparse.Namespace, labels: Sequence[str] | None) -> int:
    """Run of the model on each of the files, with a line (of JSON) for each.

    A damaged one of several is told, and the others are run: the exit code then is 2.
    """
    if args.output is not None:
        raise InputError("--output takes the results of one run: give its input with --input")
    files, code = expanded(args.files), 0
    with opened(args) as session:
        asking = Asking(args, session, labels, files, many=len(files) > 1)
        given = given_inputs(args, session, asking.recipe)
        for shot in shots(files):
            try:
                if isinstance(shot, UnreadableFileError):
                    raise shot
                _run_shot(args, session, asking, given, shot)
            except UnreadableFileError as error:
                if len(files) == 1:
                    raise
                complain(error)
                code = USER_ERROR
    return code


def _run_shot(
    args: argparse.Namespace, session: Session, asking: Asking, given: Given, shot: Shot
) -> None:
    """Run on a file, and its line."""
    whole = with_shot(args, session, asking.recipe, given, shot)
    outputs = session.run(whole.feeds)
    answer = asking.answer(outputs, whole)
    drawn = asking.drawn(shot, answer)
    rows = _rows(outputs, args, asking.labels)
    if args.json:
        place: dict[str, Any] = {"file": str(shot.path)}
        if shot.frame is not None:
            place["frame"] = shot.frame
        told = asking.told(answer, drawn)
        print(json.dumps({**place, "outputs": rows, **told}), flush=True)
    else:
        found = "; ".join(map(line, rows)) if answer is None else str(answer)
        print(f"{shot.text}: {found}", flush=True)


def _rows(
    outputs: dict[str, Any], args: argparse.Namespace, labels: Sequence[str] | None
) -> list[dict[str, Any]]:
    top = _TOP if args.top is None else args.top
    return [summary(name, value, top, labels) for name, value in outputs.items()]
