"""``vknn profile``"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from vknn.cli.arguments import add_inputs, add_model, add_runs, opened, shapes
from vknn.cli.capture import add_capture, capture_wanted, run_capture
from vknn.cli.counters import add_counters, run_counters
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.errors import VknnError
from vknn.profiling import (
    ASSUMPTIONS,
    StaticProfile,
    profile,
    static,
    static_difference,
)


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

    add_counters(parser)
    add_capture(parser)

    group = parser.add_argument_group("static profile, without a run")
    group.add_argument(
        "--static",
        action="store_true",
        help="show what every dispatch was compiled to and does; a --null-device will do",
    )
    group.add_argument(
        "--isa", type=Path, metavar="FOLDER", help="write the compiler's texts of each dispatch"
    )
    group.add_argument(
        "--latencies",
        type=float,
        metavar="FACTOR",
        help="multiply the latencies that modelled times assume (1)",
    )
    group.add_argument(
        "--against",
        type=Path,
        metavar="FILE.json",
        help="show what is different from a static profile that --json wrote",
    )


def run(args: argparse.Namespace) -> None:
    """Times of every dispatch, or with --static what the driver made of it."""
    if capture_wanted(args):
        run_capture(args)
        return
    if args.counters is not None:
        run_counters(args)
        return
    if args.static:
        _static(args)
        return
    for name in ("isa", "latencies", "against"):
        if getattr(args, name) is not None:
            raise VknnError(f"--{name} needs --static")
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


def _static(args: argparse.Namespace) -> None:
    if args.against is not None and args.json:
        raise VknnError("--against shows a table: leave out --json")
    factor = 1.0 if args.latencies is None else args.latencies
    if not 0 < factor < math.inf:
        raise VknnError("--latencies takes a number above 0")
    assumed = ASSUMPTIONS.scaled(factor)
    before = None if args.against is None else StaticProfile.from_json(args.against.read_text())
    with opened(args) as session:
        sizes = shapes(args, session)
        feeds = read_feeds(args, session)
        result = static(session, feeds, shapes=sizes, isa=args.isa, assumptions=assumed)
    if args.json:
        write_json(result.to_json())
    elif before is not None:
        show(static_difference(before, result))
    else:
        show(result.tables(args.limit))
