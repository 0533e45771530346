"""``vknn report``"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from vknn.cli.arguments import add_json
from vknn.cli.output import show, show_lines, write_json
from vknn.cli.profile import add_table
from vknn.cli.profile_limits import note_missing, note_other, read_limits
from vknn.errors import VknnError
from vknn.profiling import Profile
from vknn.profiling.frames import save_samples
from vknn.profiling.runner_profile import (
    is_runner_profile,
    page_document,
    read_runner_document,
    runner_profile,
    runner_table,
)
from vknn.profiling.runner_test import read_runner_test, runner_test_table
from vknn.reports import save


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "profile",
        type=Path,
        help="the file that vknn profile --save wrote, or vknn-run --profile, or its --test --json",
    )
    add_table(parser)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE.json", help="write a trace for ui.perfetto.dev"
    )
    parser.add_argument("--html", type=Path, metavar="FILE.html", help="write it as a page")
    parser.add_argument(
        "--verify",
        type=Path,
        metavar="FILE.json",
        help="put a cross-check of the same model on the page, which vknn verify --json wrote",
    )
    parser.add_argument(
        "--device-limits",
        type=Path,
        metavar="FILE.json",
        help="ceilings of the roofline, which vknn bench --device-limits --json wrote on the "
        "device of the profile, in place of the file's",
    )
    parser.add_argument(
        "--samples",
        type=Path,
        metavar="FILE",
        help="write a row for each command of each run, as .csv or .parquet",
    )
    add_json(parser)


def _verify(args: argparse.Namespace) -> dict[str, Any]:
    """The cross-check that goes on the page."""
    if args.html is None:
        raise VknnError("--verify needs --html")
    try:
        document = json.loads(args.verify.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise VknnError(f"{args.verify}: no JSON: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise VknnError(f"{args.verify}: no report of a cross-check")
    return document


def run(args: argparse.Namespace) -> None:
    """A saved profile as tables; needs neither the model nor a device."""
    if is_runner_profile(args.profile):
        test = read_runner_test(args.profile)
        if test is None:
            _runner(args)
        else:
            _test(args, test)
        return
    result, limits = Profile.load(args.profile), read_limits(args.device_limits)
    verify = None if args.verify is None else _verify(args)
    if limits is not None and result.about is not None:
        result.about["limits"] = json.loads(limits.to_json())
        note_other((result.about.get("device") or {}).get("name"), limits)
    if args.html is not None:
        result.save_html(args.html, verify=verify)
        note_missing(result, "--device-limits FILE.json gives them")
    if args.trace is not None:
        result.save_trace(args.trace)
    if args.samples is not None:
        save_samples(args.samples, result.runs)
    if args.json:
        write_json(result.to_json())
        return
    show(result.about_table())
    show(result.table(args.sort, args.limit))
    show(result.totals_table())
    if result.counters is not None:
        show(result.counters.table(args.limit))


def _test(args: argparse.Namespace, document: dict[str, Any]) -> None:
    """What vknn-run --test says, which has no times."""
    options = ("html", "trace", "samples", "verify", "device_limits")
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(args, name) is not None]
    if given:
        raise VknnError(
            f"{args.profile}: this is the answer of vknn-run --test, in which are no times for "
            f"{', '.join(given)}: take one of vknn-run --profile"
        )
    if args.json:
        write_json(document)
        return
    show(runner_test_table(document, args.profile.name))
    if document["ok"]:
        show_lines("all outputs are within their tolerances\n")
    else:
        show_lines(f"{document['error']}\n")
    show_lines(
        "times of its layers: vknn-run net.vkb --profile run.json, then vknn report run.json\n"
    )


def _runner(args: argparse.Namespace) -> None:
    """The same of what vknn-run wrote, which knows neither sources nor the times of the host."""
    if args.verify is not None:
        raise VknnError(
            f"{args.profile}: --verify needs the model's layers, which vknn-run does not have: "
            "take a profile of vknn profile --save"
        )
    if args.samples is not None:
        raise VknnError(f"{args.profile}: vknn-run keeps the means of its runs alone, no samples")
    if args.device_limits is not None and args.html is None:
        raise VknnError("--device-limits needs --html for a profile of vknn-run")
    document, name = read_runner_document(args.profile), args.profile.name
    result, limits = runner_profile(document, name), read_limits(args.device_limits)
    if args.html is not None:
        ceilings = None if limits is None else json.loads(limits.to_json())
        if limits is not None:
            note_other(document["device"], limits)
        save(page_document(document, name) | {"limits": ceilings}, args.html)
    if args.trace is not None:
        result.save_trace(args.trace)
    if args.json:
        write_json(result.to_json())
        return
    show(runner_table(result, document["runs"], args.sort, args.limit))
    show(f"from the first step to the last: {result.total['timed']:,.0f} us")
