"""``vknn profile``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vknn.cli.arguments import add_inputs, add_model, add_runs, add_signature, opened, rows, shapes
from vknn.cli.capture import add_capture, refuse_half_capture, run_capture
from vknn.cli.compare import add_verdict
from vknn.cli.compare_static import static_verdict
from vknn.cli.complaints import FAILED, error_text
from vknn.cli.counters import add_counters, counter_names, run_counters
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.cli.profile_limits import measuring, note_missing, note_other, read_limits
from vknn.cli.profile_modes import RUNS, WARMUP, mode_of
from vknn.cli.versus import add_versus, refuse_alone, run_versus
from vknn.cli.watched import add_time_limit, time_limit, watched_on
from vknn.errors import VknnError
from vknn.profiling import ASSUMPTIONS, StaticProfile, profile, static, static_difference
from vknn.profiling.comparison.turns import wait_for_turn
from vknn.profiling.modelled import known_machine
from vknn.runtime.pipeline_statistics import FEATURE
from vknn.runtime.precompile import COMPILE_SECONDS
from vknn.session import Session

#: The largest factor of the latencies that are assumed.
_MOST_LATENCIES = 1_000_000


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_signature(parser)
    add_inputs(parser, random=True)
    add_runs(parser, runs=RUNS, warmup=WARMUP)
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
        help="save or draw these limits, which vknn bench --device-limits --json wrote, in place "
        "of those that it remembers",
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
        "--isa", metavar="FOLDER", help="write the compiler's texts of each dispatch"
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
    add_time_limit(group, COMPILE_SECONDS, "compiles one pipeline")


def add_table(parser: argparse.ArgumentParser) -> None:
    """Order and length of a profile's table."""
    parser.add_argument(
        "--sort", choices=("plan", "time"), default="plan", help="order of the table (plan)"
    )
    parser.add_argument("--limit", type=rows, metavar="N", help="show only the first N rows")


def run(args: argparse.Namespace) -> int:
    """Times of every dispatch, with --static what the driver made of it, with --versus ratios."""
    if args.html is not None and args.static:
        raise VknnError("--html is a page of what is measured: leave out --static")
    if args.compiled and args.static:
        raise VknnError("--compiled is for what is measured: leave out --static")
    mode = mode_of(args)
    if mode == "versus":
        return run_versus(args)
    refuse_alone(args)
    refuse_half_capture(args)
    if mode == "capture":
        run_capture(args)
    elif mode == "static":
        return _static(args)
    elif mode:
        run_counters(args)
    else:
        _measured(args)
    return 0


def _measured(args: argparse.Namespace) -> None:
    for name in ("isa", "latencies", "against", "time_limit"):
        if getattr(args, name) is not None:
            raise VknnError(f"--{name.replace('_', '-')} needs --static")
    if args.device_limits is not None and args.save is None and args.html is None:
        raise VknnError("--device-limits needs --save or --html")
    limits = read_limits(args.device_limits)  # before anything is measured
    with opened(args) as session, progress("profile", args.json) as tell:
        result = profile(
            session,
            read_feeds(args, session),
            runs=args.runs,
            warmup=args.warmup,
            shapes=shapes(args, session),
            seed=args.seed,
            static=_asks(args, session),
            counters=counter_names(args),
            progress=wait_for_turn if args.turns else tell,
        )
        computes = session.device is not None and not session.device.snapshot.is_null
        if limits is not None:
            note_other(None if session.device is None else session.device.name, limits)
    if args.html is not None:
        result.save_html(args.html, limits=limits)
    if args.trace is not None:
        result.save_trace(args.trace)
    if args.save is not None:
        result.save(args.save, limits=limits)
    if args.turns:
        return
    if computes and limits is None and (args.save is not None or args.html is not None):
        note_missing(result, measuring(args.device))
    if args.json:
        write_json(result.to_json())
        return
    show(result.table(args.sort, args.limit))
    show(result.totals_table())
    if result.counters is not None:
        show(result.counters.table(args.limit))


def _asks(args: argparse.Namespace, session: Session) -> bool:
    """Whether to ask the driver what its compiler made of the kernels."""
    if args.turns:
        return False  # pairs of processes are about times alone
    if args.compiled is not None or args.html is not None:
        return args.compiled is not False
    if args.save is None or args.turns or session.device is None:
        return False  # in turns, another process is still measuring
    limits = session.device.limits
    return FEATURE in limits.features or known_machine(limits) is not None


def _static(args: argparse.Namespace) -> int:
    """The profile or the difference; 1 where that is above --fail-over, or pipelines lack."""
    factor = 1.0 if args.latencies is None else args.latencies
    if not 0 < factor <= _MOST_LATENCIES:
        raise VknnError(f"--latencies takes a number above 0, and at most {_MOST_LATENCIES:,}")
    assumed = ASSUMPTIONS.scaled(factor)
    limit = time_limit(args, COMPILE_SECONDS)
    before = None if args.against is None else StaticProfile.load(args.against)

    def profiled() -> StaticProfile:
        with opened(args) as session:
            sizes = shapes(args, session)
            feeds = read_feeds(args, session)
            return static(session, feeds, shapes=sizes, isa=args.isa, assumptions=assumed)

    result, faults = watched_on(profiled, limit)
    for fault in faults:
        print(f"vknn: error: {args.model}: {error_text(fault)}", file=sys.stderr)
    found = None if before is None else static_difference(before, result)
    if args.json:
        write_json((found or result).to_json())
    else:
        show(result.tables(args.limit) if found is None else found.table(args.limit))
    if faults:
        return FAILED
    if found is None or args.fail_over is None:
        return 0
    return static_verdict(found, args.fail_over, args.json)
