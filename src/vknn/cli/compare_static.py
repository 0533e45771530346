"""``vknn compare BEFORE.json AFTER.json`` of two static profiles, without a model or a device"""

from __future__ import annotations

import argparse

from rich.text import Text

from vknn.cli.complaints import FAILED
from vknn.cli.output import show, write_json
from vknn.errors import VknnError
from vknn.profiling import StaticDifference, StaticProfile, static_difference
from vknn.profiling.static_schema import is_static

#: What other comparisons take.
_OPTIONS = (
    *("paired", "in_turn", "markdown", "junit", "sort", "html", "inputs", "runner", "device"),
    *("iteration", "timeout", "seed", "shape", "weights", "precision", "tolerance", "layers"),
    "failures",
)


def are_static(args: argparse.Namespace) -> bool:
    """Whether two static profiles are to be compared. Raises VknnError where only one is."""
    if args.after is None or args.against is not None:
        return False
    kinds = [is_static(path) for path in (args.before, args.after)]
    if any(kinds) and not all(kinds):
        other, one = sorted((args.before, args.after), key=is_static)
        if not other.is_file():
            return True  # whoever reads it says so
        raise VknnError(
            f"{one} is a static profile and {other} is none: give two files that vknn profile "
            "--static --json wrote"
        )
    return all(kinds)


def run_static(args: argparse.Namespace) -> int:
    """The difference as a table or JSON; 1 where the modelled sum grew by more than --fail-over."""
    _refuse_others(args)
    found = static_difference(*(StaticProfile.load(path) for path in (args.before, args.after)))
    if args.json:
        write_json(found.to_json())
    else:
        show(found.table(args.limit))
    return 0 if args.fail_over is None else static_verdict(found, args.fail_over, args.json)


def static_verdict(found: StaticDifference, share: float, quiet: bool) -> int:
    """1 where the modelled sum grew by more than ``share``, 0 else; says both unless ``quiet``.

    Raises VknnError where a dispatch has no modelled time.
    """
    before, after = found.before.time, found.after.time
    if before is None or after is None:
        raise VknnError("--fail-over: a dispatch has no modelled time, so there is no sum of them")
    if not quiet:
        grown = f"{after / before - 1:+.1%}" if before else "new" if after else "none"
        show(Text(f"modelled: {before:,.1f} us before, {after:,.1f} us after ({grown})"))
    return FAILED if after > before * (1 + share) else 0


def _refuse_others(args: argparse.Namespace) -> None:
    for name in _OPTIONS:
        if getattr(args, name) not in (None, False, [], "plan"):
            raise VknnError(f"--{name.replace('_', '-')} is not for static profiles: leave it out")
