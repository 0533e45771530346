"""``vknn profile --versus``: two settings in turn."""

from __future__ import annotations

import argparse
from pathlib import Path

from vknn.cli.compare import add_verdict, reported
from vknn.cli.output import progress
from vknn.errors import VknnError
from vknn.profiling import versus
from vknn.profiling.comparison.turns import OPTION
from vknn.profiling.comparison.versus import PAIRS

#: Options of a comparison that a profile has no use for.
_TOGETHER = ("pairs", "one_by_one", "keep", "fail_over", "markdown", "junit")


def add_versus(parser: argparse._ActionsContainer) -> None:
    """Options for what is run in turn."""
    parser.add_argument(
        "--versus",
        metavar="OPTIONS",
        help='run it in turn with these options changed ("--disable winograd", "--precision '
        'fp16"), or with another checkout of vknn (its folder), a process each',
    )
    parser.add_argument(OPTION, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=int, metavar="N", help=f"processes of each side ({PAIRS})")
    parser.add_argument(
        "--one-by-one",
        action="store_true",
        default=None,
        help="end a process before the next one begins, for models of which a device holds one "
        "only: it tells less",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the profiles, before/ and after/"
    )


def refuse_alone(args: argparse.Namespace) -> None:
    """An error for options that need --versus; --fail-over is for --static with --against, too."""
    compares = args.static and args.against is not None
    for name in _TOGETHER:
        if getattr(args, name) is not None and not (compares and name == "fail_over"):
            raise VknnError(f"--{name.replace('_', '-')} needs --versus")


def run_versus(args: argparse.Namespace) -> int:
    """The comparison and its exit code."""
    pairs = PAIRS if args.pairs is None else args.pairs
    with progress("versus", args.json) as tell:
        found = versus(
            _rest(args),
            args.versus,
            pairs=pairs,
            one_by_one=bool(args.one_by_one),
            keep=args.keep,
            progress=tell,
        )
    return reported(found, args)


def _rest(args: argparse.Namespace) -> list[str]:
    """The arguments of a side, as they were given, behind the command's name.

    What is shown, and where, is the comparison's affair and none of the sides'.
    """
    own = argparse.ArgumentParser(add_help=False)
    add_versus(own)
    add_verdict(own)
    own.add_argument("--json", action="store_true")
    own.add_argument("--compiled", action=argparse.BooleanOptionalAction)
    for name in ("--sort", "--limit", "--html"):
        own.add_argument(name)
    _, rest = own.parse_known_args(args.given)
    rest.remove("profile")
    return rest
