"""``vknn bisect``"""

from __future__ import annotations

import argparse

from vknn.cli.arguments import add_inputs, add_model, model_files, opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, write_json
from vknn.cli.reduce import add_judging, judging, refuse_null
from vknn.reduction import bisect


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser, random=True)
    group = parser.add_argument_group("bisection")
    group.add_argument(
        "--check",
        metavar="COMMAND",
        help="what says whether it fails: it gets a folder with the model as its last argument and "
        "VKNN_DISABLE in its environment, and exits with 0 where nothing fails",
    )
    add_judging(group)


def run(args: argparse.Namespace) -> int:
    """Bisection; the exit code is 1 where something fails, and 0 where nothing does."""
    refuse_null(args)
    with opened(args, device="numpy") as session:
        feeds, sizes = read_feeds(args, session), shapes(args, session)
    with model_files(args) as files, progress("bisect", args.json) as tell:
        report = bisect(
            files.model,
            feeds,
            weights=files.weights,
            shapes=sizes,
            progress=tell,
            **judging(args),
        )
    if args.json:
        write_json(report.to_json())
    else:
        print(report.summary())
    return 0 if report.ok else 1
