"""``vknn verify --advise``"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from vknn.answers import Recipe
from vknn.cli.arguments import opened, shapes
from vknn.cli.feeds import given_inputs
from vknn.cli.output import progress, show, write_json
from vknn.cli.records import input_records
from vknn.cli.times import seconds
from vknn.crosscheck import advise
from vknn.errors import VknnError
from vknn.session import Session

#: Options of other reports: name of the argument -> option.
_OTHERS = {
    "before_passes": "--before-passes",
    "failures": "--failures",
    "dump": "--dump",
    "metrics": "--metrics",
    "metric": "--metric",
    "keep_worst": "--keep-worst",
    "search": "--search",
    "search_steps": "--search-steps",
}


def add_advice(group: argparse._ActionsContainer) -> None:
    """The options for advice on precision."""
    group.add_argument(
        "--advise",
        action="store_true",
        help="with --precision fp16 or bf16, find the layers that have to stay in fp32 and why; "
        "--tolerance is the error allowed to outputs then",
    )
    group.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.json",
        help="write the list of layers here, for --precision and precision= to read",
    )
    group.add_argument(
        "--time-limit",
        type=seconds,
        default=300.0,
        metavar="SECONDS",
        help="so long (60s, 5m) look for a shorter list (5m)",
    )


def run_advice(
    args: argparse.Namespace, recipe_of: Callable[[argparse.Namespace, Session], Recipe | None]
) -> int:
    """Advice; the exit code is 1 where no list of layers meets the tolerance.

    ``recipe_of``: finds what says how pictures go in.
    """
    _check(args)
    args.search_asked = False
    share = args.tolerance if args.cumulative_tolerance is None else args.cumulative_tolerance
    with opened(args) as session, progress("advise", args.json) as tell:
        recipe = recipe_of(args, session)
        records = input_records(args, session, recipe)
        if records is None:
            inputs = dict(given_inputs(args, session, recipe).feeds)
        report = advise(
            session,
            inputs if records is None else records,
            precision=args.precision,
            arithmetic=args.arithmetic,
            shapes=shapes(args, session),
            tolerance=share,
            limit=args.limit,
            time_limit=args.time_limit,
            seed=args.seed,
            progress=tell,
        )
    if args.html is not None:
        report.save_html(args.html)
    if args.output is not None and report.ok:
        report.save(args.output)
    if args.json:
        write_json(report.to_json())
    else:
        show(report)
    return 0 if report.ok else 1


def _check(args: argparse.Namespace) -> None:
    if not args.advise:
        raise VknnError("-o writes the list of --advise, which is not asked for")
    if args.precision not in ("fp16", "bf16"):
        raise VknnError("--advise needs --precision fp16 or bf16, in which all other layers are")
    if given := [option for name, option in _OTHERS.items() if getattr(args, name)]:
        raise VknnError(f"--advise makes a report of its own, without {', '.join(given)}")
