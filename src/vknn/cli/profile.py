"""``vknn profile``"""

from __future__ import annotations

import argparse
from pathlib import Path

from vknn.cli.arguments import add_inputs, add_model, add_runs, opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.profiling import profile


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser, random=True)
    add_runs(parser, runs=10, warmup=2)
    parser.add_argument(
        "--sort", choices=("plan", "time"), default="plan", help="order of the table (plan)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="show only the first N rows")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE.json", help="write a trace for ui.perfetto.dev"
    )


def run(args: argparse.Namespace) -> None:
    """Times every dispatch and shows where the time goes."""
    with opened(args) as session, progress("profile", args.json) as tell:
        result = profile(
            session,
            read_feeds(args, session),
            runs=args.runs,
            warmup=args.warmup,
            shapes=shapes(args, session),
            seed=args.seed,
            progress=tell,
        )
    if args.trace is not None:
        result.save_trace(args.trace)
    if args.json:
        write_json(result.to_json())
        return
    show(result.table(args.sort, args.limit))
    show(result.totals_table())
