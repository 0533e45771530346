"""``vknn report``"""

from __future__ import annotations

import argparse
from pathlib import Path

from vknn.cli.arguments import add_json
from vknn.cli.output import show, write_json
from vknn.cli.profile import add_table
from vknn.profiling import Profile


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", type=Path, help="the file that vknn profile --save wrote")
    add_table(parser)
    parser.add_argument("--html", type=Path, metavar="FILE.html", help="write it as a page")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """A saved profile as tables; needs neither the model nor a device."""
    result = Profile.load(args.profile)
    if args.html is not None:
        result.save_html(args.html)
    if args.json:
        write_json(result.to_json())
        return
    show(result.about_table())
    show(result.table(args.sort, args.limit))
    show(result.totals_table())
