"""``vknn batch``"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TextIO

from vknn.cli.arguments import add_model, model_files
from vknn.cli.complaints import FAILED as JOB_FAILED
from vknn.cli.complaints import complain
from vknn.cli.inputs import add_image_arguments
from vknn.cli.output import progress, show_lines
from vknn.cli.supervised import attended, stoppable, supervised
from vknn.errors import InputError
from vknn.scale.convert import FORMATS, check_target, convert
from vknn.scale.folder import Folder
from vknn.scale.job import ENGINES, run_job
from vknn.scale.options import BATCH_ROWS, Predictor
from vknn.scale.outcome import JobError, Outcome
from vknn.scale.plan import JobPlan
from vknn.scale.report import Report
from vknn.scale.steps import DONE, FAILED, SUSPECT


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "source",
        nargs="+",
        metavar="SOURCE",
        help="a folder, pattern, file or address: pictures, .parquet, .npy, .npz, .tar",
    )
    group = parser.add_argument_group("records")
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="the column that an input of the model is read from",
    )
    group.add_argument("--id", metavar="COLUMN", help="names records, for a job to be taken up")
    group.add_argument(
        "--keep", type=_names, default=(), metavar="COLUMN,..", help="columns that answers keep"
    )
    add_image_arguments(parser)
    group = parser.add_argument_group("answers")
    group.add_argument("--output", required=True, metavar="FOLDER", help="where answers go")
    group.add_argument("--outputs", type=_names, metavar="NAME,..", help="outputs written (all)")
    group.add_argument(
        "--format", choices=FORMATS, default="parquet", help="also convert the finished answers"
    )
    group.add_argument("--labels", type=Path, metavar="FILE", help="names of classes, one a line")
    group.add_argument(
        "--recipe", type=Path, metavar="FILE", help="what outputs mean; none: nothing"
    )
    group.add_argument("--threshold", type=float, metavar="N", help="lowest score (the recipe's)")
    _add_work(parser.add_argument_group("work"))


def _add_work(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--engine", choices=ENGINES, default="auto", help="this process, or Ray (as large as it is)"
    )
    group.add_argument("--address", metavar="ADDRESS", help="of a Ray cluster, or auto")
    group.add_argument("--workers", type=int, metavar="N", help="workers in all (Ray)")
    group.add_argument(
        "--per-device", type=int, default=1, metavar="N", help="workers that share a device (1)"
    )
    group.add_argument(
        "--batch-size", type=int, default=BATCH_ROWS, metavar="N", help=f"rows ({BATCH_ROWS})"
    )
    group.add_argument(
        "--stacked", type=int, metavar="N", help="records a run computes; 1: one (8 where faster)"
    )
    group.add_argument(
        "--errors",
        metavar="N",
        help="records that may fail: a number or a share such as 0.1%% (all)",
    )
    group.add_argument(
        "--check",
        default="first",
        metavar="SHARE",
        help="records that NumPy computes, too: 1/1000; first: each worker's first; none",
    )
    again = group.add_mutually_exclusive_group()
    again.add_argument("--restart", action="store_true", help="remove earlier answers, begin anew")
    again.add_argument(
        "--redo-suspect", action="store_const", dest="again", const=SUSPECT, default="",
        help="compute rows of a wrong device again",
    )  # fmt: skip
    again.add_argument(
        "--redo-errors", action="store_const", dest="again", const=FAILED,
        help="compute rows with errors again, too",
    )  # fmt: skip
    group.add_argument("--dry-run", action="store_true", help="say what would be done")


def run(args: argparse.Namespace) -> int:
    """Run of a job; a report is shown at its end."""
    work = partial(_run, args)
    if args.engine == "local" and args.dry_run:
        return stoppable(work)
    try:
        return supervised(args.output, work) if _may_die(args) else attended(work)
    except JobError as error:
        complain(error)
        return JOB_FAILED


def _run(args: argparse.Namespace, ended: int = 0) -> int:
    """The job; ``ended``: processes before this one, which removed what was to be removed."""
    restart, again = args.restart and not ended, args.again
    if ended and again == FAILED:
        again = ""
    if args.format != "parquet" and not args.dry_run and not Folder(args.output).is_local:
        raise InputError(
            f"--format {args.format}: only answers in a folder of this machine are converted, and "
            f"{args.output} is none"
        )
    if args.format != "parquet":
        check_target(args.output, args.format, args.source)
    with ExitStack() as stack:
        files = stack.enter_context(model_files(args))
        predictor = _predictor(args, files.model, files.weights)
        tell = stack.enter_context(_telling(args))
        try:
            with redirect_stdout(sys.stderr):  # Ray tells there of workers that died
                found = run_job(
                    args.source, predictor, args.output, engine=args.engine, address=args.address,
                    errors=args.errors, restart=restart, again=again, progress=tell,
                    dry_run=args.dry_run, ended=ended,
                )  # fmt: skip
        except JobError as error:
            if error.report is not None:
                _show(args, error.report)
            complain(error)
            return JOB_FAILED
    _show(args, found)
    if args.format != "parquet" and isinstance(found, Report) and found.state == DONE:
        written = convert(args.output, args.format)
        if not args.json:
            show_lines(f"written: {written}\n")
    return 0


def _may_die(args: argparse.Namespace) -> bool:
    """Whether the job computes in this process, which a driver may end."""
    return args.engine != "ray" and args.address is None and not args.dry_run


def _predictor(args: argparse.Namespace, model: Path, weights: Path | None) -> Predictor:
    return Predictor(
        model, weights, device=args.device, per_device=args.per_device, workers=args.workers,
        precision=args.precision, arithmetic=args.arithmetic, disable=args.disable,
        layers=tuple(args.layers), columns=_columns(args.input), id=args.id, keep=args.keep,
        outputs=args.outputs, size=args.size, resize=args.resize, mean=args.mean, std=args.std,
        channels=args.channels, layout=args.layout, recipe=args.recipe, labels=args.labels,
        threshold=args.threshold, batch_size=args.batch_size, stacked=args.stacked,
        check=args.check,
    )  # fmt: skip


def _columns(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, column = text.rpartition("=")
        if not equals or not name or not column:
            raise InputError(f"--input {text!r}: write it as NAME=COLUMN, an input and a column")
        if name in found:
            raise InputError(f"two columns for input {name!r}")
        found[name] = column
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@contextmanager
def _telling(args: argparse.Namespace) -> Iterator[Callable[[Outcome], None] | None]:
    """Block with what is told how far the job is: a line of JSON, or a bar on a terminal."""
    with progress("batch", quiet=args.json) as tell:
        if args.json:
            yield partial(_tell_json, sys.stdout)
        elif tell is None:
            yield None
        else:
            yield lambda outcome: tell(
                outcome.rows, outcome.total or outcome.rows, f"{outcome.errors_now} errors"
            )


def _tell_json(file: TextIO, outcome: Outcome) -> None:
    report = outcome.report("", "running", "")
    line = {
        "state": "running", "rows": report.rows, "total": outcome.total,
        "errors": report.error_count, "seconds": round(report.seconds, 1),
        "rows_per_second": round(report.rows_per_second, 1),
    }  # fmt: skip
    print(json.dumps(line), file=file, flush=True)


def _show(args: argparse.Namespace, found: Report | JobPlan) -> None:
    if args.json:
        print(json.dumps(json.loads(found.to_json())), flush=True)
    else:
        sys.stdout.write(f"{found}\n")
