"""``vknn compare``"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from vknn.cli.against import add_against, are_records, refuse_half, run_against, run_records
from vknn.cli.arguments import add_json, rows
from vknn.cli.compare_static import are_static, run_static
from vknn.cli.complaints import FAILED
from vknn.cli.output import show, write_json
from vknn.errors import VknnError
from vknn.named_files import replacing
from vknn.profiling import ProfileComparison, compare
from vknn.profiling.comparison import junit, markdown
from vknn.profiling.runner_profile import names_device_first


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "before",
        type=Path,
        help="a file that vknn profile --save wrote, or a folder of them, a process each; a record "
        "of tensors (.npz of vknn dump, or Polygraphy's .json); a static profile (vknn profile "
        "--static --json); with --against a model",
    )
    parser.add_argument("after", type=Path, nargs="?", help="the same of the other side")
    parser.add_argument(
        "--paired",
        action="store_true",
        help="files of the two folders, in order of their names, were made in turn",
    )
    parser.add_argument(
        "--in-turn",
        action="store_true",
        help="they are pairs whose runs took turns, as vknn profile --versus keeps them",
    )
    add_verdict(parser)
    parser.add_argument(
        "--sort", choices=("plan", "time"), default="plan", help="order of the table (plan)"
    )
    parser.add_argument("--limit", type=rows, metavar="N", help="show only the first N rows")
    parser.add_argument("--html", type=Path, metavar="FILE.html", help="write it as a page")
    add_against(parser)
    add_json(parser)


def add_verdict(parser: argparse._ActionsContainer) -> None:
    """Options for what a comparison leads to: an exit code, and files."""
    parser.add_argument(
        "--fail-over",
        type=_share,
        metavar="5%",
        help="exit with 1 where the whole or a layer is slower, and by more than this; of static "
        "profiles, where the modelled sum is",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write it as a JUnit report")


def run(args: argparse.Namespace) -> int:
    """Profiles, measured or static, or records compared, without a model; or a model and another
    engine."""
    for path in (args.before, args.after):
        _refuse_runner(path)
    if are_static(args):
        return run_static(args)
    refuse_half(args)
    if args.against is not None:
        return run_against(args)
    if are_records(args):
        return run_records(args)
    files = _files(args.before), _files(args.after)
    found = compare(*files, paired=args.paired, in_turn=args.in_turn)
    return reported(found, args)


def reported(found: ProfileComparison, args: argparse.Namespace) -> int:
    """The comparison as tables or JSON, and in files; the exit code."""
    over = args.fail_over or 0.0
    for path, text in (
        (args.markdown, lambda: markdown(found)),
        (args.junit, lambda: junit(found, over)),
    ):
        if path is not None:
            with replacing(path) as file:
                file.write(text().encode())
    if args.html is not None:
        found.save_html(args.html)
    if args.json:
        write_json(found.to_json())
    else:
        show(found.table(args.sort, args.limit))
        show(found.parts_table())
        for line in found.summary():
            show(Text(line))
    failed = args.fail_over is not None and found.slowdowns(over)
    return FAILED if failed else 0


def _refuse_runner(path: Path | None) -> None:
    if path is not None and names_device_first(path):
        raise VknnError(
            f"{path}: vknn-run keeps the means of its runs alone, by which no difference is told "
            "from chance: compare files of vknn profile --save, or look at each with vknn report"
        )


def _files(path: Path) -> list[Path]:
    """The files of a side."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.vkprof"))
    if not files:
        raise VknnError(f"{path}: there is no .vkprof file in this folder")
    return files


def _share(text: str) -> float:
    """5% or 0.05 as a number."""
    number, per_cent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100 if per_cent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write it as 5%")
    return share
