"""``vknn verify``"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.text import Text

from vknn.answers import Recipe, find_recipe
from vknn.answers.looking import NO_RECIPE
from vknn.cli.advice import add_advice, run_advice
from vknn.cli.arguments import add_inputs, add_model, add_signature, opened, shapes
from vknn.cli.feeds import given_inputs
from vknn.cli.functions import function_named
from vknn.cli.output import progress, show, write_json
from vknn.cli.records import input_records
from vknn.cli.times import seconds
from vknn.crosscheck import DataReport, InputRecord, VerifyReport, search, verify, verify_over
from vknn.errors import InputError
from vknn.precision import CUMULATIVE
from vknn.session import Session


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_signature(parser)
    add_inputs(parser, random=True)
    group = parser.add_argument_group("checks")
    usual = []
    for (precision, arithmetic), share in CUMULATIVE.items():
        also = "" if arithmetic == "fp32" else f" with arithmetic {arithmetic}"
        usual.append(f"{share:g} in {precision}{also}")
    group.add_argument(
        "--tolerance",
        type=float,
        metavar="N",
        help="error allowed to one operator, relative to what it accumulates "
        "(what its arithmetic explains)",
    )
    group.add_argument(
        "--cumulative-tolerance",
        type=float,
        metavar="N",
        help=f"error allowed to any value, relative to its largest element ({', '.join(usual)})",
    )
    group.add_argument(
        "--before-passes", action="store_true", help="check the graph as it was read"
    )
    group.add_argument("--failures", action="store_true", help="show only what fails")
    group.add_argument("--dump", type=Path, metavar="FILE.npz", help="write all arrays here")
    group.add_argument("--html", type=Path, metavar="FILE.html", help="write a page of layers")
    _add_metrics(parser.add_argument_group("metrics"))
    add_advice(parser.add_argument_group("advice"))
    _add_many(
        parser.add_argument_group(
            "many inputs",
            "folders, patterns, several files, and arrays with an axis of records are many inputs",
        )
    )


def _add_metrics(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--metrics",
        action="store_true",
        help="show of each operator how large its errors are and where they lie, and of answers "
        "whether they agree",
    )
    group.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="a function of one's own, MODULE:FUNCTION or FILE.py:FUNCTION: of the device's array "
        "and the right one, to a number",
    )
    group.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="what the outputs mean (<model>.recipe.json, else built in); none: nothing",
    )


def _add_many(group: argparse._ActionsContainer) -> None:
    group.add_argument("--limit", type=_count, metavar="N", help="inputs at most (all)")
    group.add_argument(
        "--keep-worst",
        type=Path,
        metavar="FOLDER",
        help="write the worst input of each operator here, for --input to read",
    )
    group.add_argument(
        "--search",
        type=seconds,
        metavar="SECONDS",
        help="so long (60s, 5m) look for inputs with larger errors, from those given on",
    )
    group.add_argument(
        "--search-steps",
        type=_count,
        metavar="N",
        help="the same, for so many inputs: with the same --seed the same ones",
    )


def run(args: argparse.Namespace) -> int:
    """Comparison; the exit code is 1 where something is out of tolerance or nothing was checked."""
    if args.advise or args.output is not None:
        return run_advice(args, _recipe)
    args.search_asked = args.search is not None or args.search_steps is not None
    with opened(args) as session, progress("verify", args.json) as tell:
        report = _report(args, session, tell)
    if args.html is not None:
        report.save_html(args.html)
    if isinstance(report, VerifyReport) and args.dump is not None:
        report.dump(args.dump)
    if isinstance(report, DataReport) and args.keep_worst is not None:
        report.keep_worst(args.keep_worst)
    if args.json:
        write_json(report.to_json())
    else:
        _show(args, report)
    return 0 if report.ok and report.checked else 1


def _report(args: argparse.Namespace, session: Session, tell: Any) -> VerifyReport | DataReport:
    recipe = _recipe(args, session)
    records = input_records(args, session, recipe)
    options: dict[str, Any] = {
        "shapes": shapes(args, session),
        "tolerance": args.tolerance,
        "cumulative_tolerance": args.cumulative_tolerance,
        "passes": not args.before_passes,
        "seed": args.seed,
        "progress": tell,
        "metrics": args.metrics,
        "metric": {text: function_named(text, "--metric") for text in args.metric} or None,
    }
    one = {} if records is not None else dict(given_inputs(args, session, recipe).feeds)
    if not args.search_asked:
        # Without metrics nobody asks what outputs mean.
        options["recipe"] = NO_RECIPE if recipe is None else recipe if args.recipe else None
    if not args.search_asked and records is None and args.keep_worst is None:
        return verify(session, one, **options)
    if args.dump is not None:
        raise InputError("--dump writes the arrays of one input, and there are many")
    if records is None:
        names = " ".join(args.input)
        records = iter([InputRecord(names or f"random {args.seed}", one)])
    if args.search_asked:
        budget = {"seconds": args.search, "steps": args.search_steps}
        return search(session, records, limit=args.limit, **budget, **options)
    return verify_over(session, records, limit=args.limit, **options)


def _recipe(args: argparse.Namespace, session: Session) -> Recipe | None:
    """The recipe that says how pictures go in, and what outputs mean."""
    if args.recipe is not None:
        return None if str(args.recipe) == NO_RECIPE else Recipe.load(args.recipe)
    if not (args.input or args.metrics or args.metric):
        return None  # nobody asks, and the file beside the model may be broken
    found = find_recipe(session, args.model)
    return None if found is None else found[0]


def _show(args: argparse.Namespace, report: VerifyReport | DataReport) -> None:
    if not args.failures or not report.ok:
        if isinstance(report, DataReport) or not report.has_metrics:
            show(report.table(failures_only=args.failures))
        if args.metrics or args.metric:
            show(report.metrics_table(failures_only=args.failures))
    for line in (*report.notes(), report.summary()):
        show(Text(line))


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)
