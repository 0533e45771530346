"""``vknn reduce``"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

from vknn.cli.arguments import add_inputs, add_model, disabled, model_files, opened, shapes
from vknn.cli.complaints import STOPPED
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, write_json
from vknn.cli.watched import watched
from vknn.errors import NullDeviceError
from vknn.opening import choose_device
from vknn.reduction import reduce
from vknn.runtime.precompile import COMPILE_SECONDS


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser, random=True)
    group = parser.add_argument_group("reduction")
    group.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="write the result here"
    )
    group.add_argument(
        "--check",
        metavar="COMMAND",
        help="what says whether a candidate fails: it gets the candidate's folder as its last "
        "argument, and exits with 0 where nothing fails (candidates are verified)",
    )
    add_judging(group)
    group.add_argument(
        "--limit",
        type=float,
        default=600.0,
        metavar="S",
        help="seconds after which the best candidate so far is the result (600)",
    )


def refuse_null(args: argparse.Namespace) -> None:
    """Refusal of a null device, which computes nothing to judge cases by: NullDeviceError."""
    if args.check:
        return
    reason = watched(lambda: _null_device(args.device), COMPILE_SECONDS)
    if reason is not None:
        raise NullDeviceError(reason)


def _null_device(selector: str) -> str | None:
    """Text about the null device that a selector means; None for other devices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            device = choose_device(selector)
        except NullDeviceError as error:
            return str(error)
    if device is None:
        return None
    with device:
        if not device.snapshot.is_null:
            return None
        return (
            f"{device.snapshot.name} is a null device: nothing is computed on it, so no result is "
            "right or wrong; choose another device, or judge with --check"
        )


def add_judging(group: argparse._ActionsContainer) -> None:
    """The options by which a case is judged."""
    group.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds that a run may take (60)"
    )
    group.add_argument(
        "--tolerance", type=float, metavar="N", help="error allowed to one operator (vknn verify)"
    )
    group.add_argument(
        "--cumulative-tolerance", type=float, metavar="N", help="error allowed to any value"
    )


def judging(args: argparse.Namespace) -> dict[str, Any]:
    """Options of a case, by which it is run and judged, as ``reduce`` and ``bisect`` take them."""
    return {
        "check": args.check,
        "timeout": args.timeout,
        "device": args.device,
        "precision": args.precision,
        "arithmetic": args.arithmetic,
        "disable": sorted(disabled(args)),
        "layers": args.layers,
        "seed": args.seed,
        "tolerance": args.tolerance,
        "cumulative_tolerance": args.cumulative_tolerance,
    }


def run(args: argparse.Namespace) -> int:
    """Reduction; the exit code is 1 where something fails, and 0 where nothing does."""
    refuse_null(args)
    with opened(args, device="numpy") as session:
        feeds, sizes = read_feeds(args, session), shapes(args, session)
    with model_files(args) as files, progress("reduce", args.json) as tell:
        report = reduce(
            files.model,
            feeds,
            output=args.output,
            limit=args.limit,
            weights=files.weights,
            shapes=sizes,
            progress=tell,
            **judging(args),
        )
    if args.json:
        write_json(report.to_json())
    else:
        print(report.summary())
    if report.stopped == "interrupted":
        return STOPPED
    return 0 if report.ok else 1
