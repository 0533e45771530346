"""``vknn profile``"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from vknn.cli.arguments import add_inputs, add_model, add_runs, add_signature, opened, shapes
from vknn.cli.capture import add_capture, capture_wanted, run_capture
from vknn.cli.compare import add_verdict
from vknn.cli.counters import add_counters, run_counters
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.cli.versus import add_versus, refuse_alone, run_versus
from vknn.errors import VknnError
from vknn.profiling import (
    ASSUMPTIONS,
    Limits,
    StaticProfile,
    profile,
    static,
    static_difference,
)
from vknn.profiling.comparison.turns import wait_for_turn
from vknn.profiling.modelled import gpu_machine
from vknn.runtime.pipeline_statistics import FEATURE
from vknn.session import Session


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_signature(parser)
    add_inputs(parser, random=True)
    add_runs(parser, runs=10, warmup=2)
    add_table(parser)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE.json", help="write a trace for ui.perfetto.dev"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE.vkprof", help="write everything, for vknn report"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE.html",
        help="write a page with table, charts and source, and what --static knows",
    )
    parser.add_argument(
        "--compiled",
        action=argparse.BooleanOptionalAction,
        help="ask the driver, after the runs, what its compiler made of each kernel: columns here, "
        "in --save and --html; compiles all kernels once more (with --html, and with --save on "
        "devices of which more than counts is known)",
    )
    parser.add_argument(
        "--device-limits",
        type=Path,
        metavar="FILE.json",
        help="save or draw these limits, which vknn bench --device-limits --json wrote",
    )

    group = parser.add_argument_group("comparison with another setting")
    add_versus(group)
    add_verdict(group)

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


def add_table(parser: argparse.ArgumentParser) -> None:
    """Order and length of a profile's table."""
    parser.add_argument(
        "--sort", choices=("plan", "time"), default="plan", help="order of the table (plan)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="show only the first N rows")


def run(args: argparse.Namespace) -> int:
    """Times of every dispatch, with --static what the driver made of it, with --versus ratios."""
    if args.html is not None and args.static:
        raise VknnError("--html is a page of what is measured: leave out --static")
    if args.compiled and args.static:
        raise VknnError("--compiled is for what is measured: leave out --static")
    if args.versus is not None:
        return run_versus(args)
    refuse_alone(args)
    if capture_wanted(args):
        run_capture(args)
    elif args.counters is not None:
        run_counters(args)
    elif args.static:
        _static(args)
    else:
        _measured(args)
    return 0


def _measured(args: argparse.Namespace) -> None:
    for name in ("isa", "latencies", "against"):
        if getattr(args, name) is not None:
            raise VknnError(f"--{name} needs --static")
    limits = _limits(args)
    with opened(args) as session, progress("profile", args.json) as tell:
        result = profile(
            session,
            read_feeds(args, session),
            runs=args.runs,
            warmup=args.warmup,
            shapes=shapes(args, session),
            seed=args.seed,
            static=_asks(args, session),
            progress=wait_for_turn if args.turns else tell,
        )
    if args.html is not None:
        result.save_html(args.html, limits=limits)
    if args.trace is not None:
        result.save_trace(args.trace)
    if args.save is not None:
        result.save(args.save, limits=limits)
    if args.turns:
        return
    if args.json:
        write_json(result.to_json())
        return
    show(result.table(args.sort, args.limit))
    show(result.totals_table())


def _asks(args: argparse.Namespace, session: Session) -> bool:
    """Whether to ask the driver what its compiler made of the kernels."""
    if args.turns:
        return False  # pairs of processes are about times alone
    if args.compiled is not None or args.html is not None:
        return args.compiled is not False
    if args.save is None or args.turns or session.device is None:
        return False  # in turns, another process is still measuring
    limits = session.device.limits
    return FEATURE in limits.features or gpu_machine(limits) is not None


def _limits(args: argparse.Namespace) -> Limits | None:
    """The limits to save, read before anything is measured."""
    if args.device_limits is None:
        return None
    if args.save is None and args.html is None:
        raise VknnError("--device-limits needs --save or --html")
    try:
        return Limits.from_json(args.device_limits.read_text(encoding="utf-8"))
    except (VknnError, UnicodeDecodeError) as error:
        raise VknnError(f"{args.device_limits}: {error}") from None


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
