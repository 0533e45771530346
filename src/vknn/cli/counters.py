"""``vknn profile --counters``"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from vknn.cli.arguments import opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import show, write_json
from vknn.errors import VknnError
from vknn.profiling.counter_profile import count, counters, counters_table

#: In place of names: the device's counters, without a run.
LIST = "list"


def add_counters(parser: argparse.ArgumentParser) -> None:
    """The option that asks for counters."""
    group = parser.add_argument_group("counters of the device, in place of times")
    group.add_argument(
        "--counters",
        metavar="NAMES",
        help="names, or patterns such as 'L2*', with commas between; 'list' shows what there is; "
        "with --save or --html they are kept beside the times, which are measured, too",
    )


def counter_names(args: argparse.Namespace) -> list[str]:
    """The counters that are named; none where there is no --counters."""
    if args.counters is None:
        return []
    names = [name.strip() for name in args.counters.split(",") if name.strip()]
    if not names:
        raise VknnError("no counters are named: --counters list shows what there is")
    return names


def run_counters(args: argparse.Namespace) -> None:
    """The device's counters, or their values around each command or submit."""
    with opened(args) as session:
        if args.counters == LIST:
            found = counters(session)
            if args.json:
                write_json(json.dumps({"counters": [asdict(c) for c in found]}, indent=2))
            else:
                show(counters_table(found))
            return
        feeds, sizes, names = read_feeds(args, session), shapes(args, session), counter_names(args)
        result = count(session, feeds, names=names, shapes=sizes, seed=args.seed)
    if args.json:
        write_json(result.to_json())
    else:
        show(result.table(args.limit))
