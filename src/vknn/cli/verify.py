"""``vknn verify``"""

from __future__ import annotations

import argparse
from pathlib import Path

from vknn.cli.arguments import add_inputs, add_model, opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.crosscheck import verify
from vknn.crosscheck.check import CUMULATIVE


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
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


def run(args: argparse.Namespace) -> int:
    """Comparison; the exit code is 1 where something is out of tolerance or nothing was checked."""
    with opened(args) as session, progress("verify", args.json) as tell:
        report = verify(
            session,
            read_feeds(args, session),
            shapes=shapes(args, session),
            tolerance=args.tolerance,
            cumulative_tolerance=args.cumulative_tolerance,
            passes=not args.before_passes,
            seed=args.seed,
            progress=tell,
        )
    if args.dump is not None:
        report.dump(args.dump)
    if args.json:
        write_json(report.to_json())
    else:
        if not args.failures or not report.ok:
            show(report.table(failures_only=args.failures))
        show(report.summary())
    return 0 if report.ok and report.checked else 1
