"""``vknn tune``"""

from __future__ import annotations

import argparse

from vknn.cli.arguments import add_inputs, add_model, opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.tuning import tune


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser, random=True)
    parser.add_argument(
        "--runs", type=int, metavar="N", default=5, help="runs of each kernel to time (5)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long a kernel may take to get ready and run before it is struck off (60)",
    )


def run(args: argparse.Namespace) -> int:
    """Measurement; the exit code is 1 where no kernel of some layer gave right results."""
    with opened(args) as session, progress("tune", args.json) as tell:
        report = tune(
            session,
            read_feeds(args, session),
            runs=args.runs,
            timeout=args.timeout,
            shapes=shapes(args, session),
            seed=args.seed,
            progress=tell,
        )
    if args.json:
        write_json(report.to_json())
    else:
        show(report)
    return 1 if any(row.winner is None for row in report.rows) else 0
