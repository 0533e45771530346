"""``vknn kernel``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vknn.cli.arguments import add_inputs, add_json, add_model, opened, shapes
from vknn.cli.complaints import FAILED, USER_ERROR
from vknn.cli.feeds import read_feeds
from vknn.cli.output import show, write_json
from vknn.errors import InputError, ShaderError, VknnError
from vknn.printable import one_line

if TYPE_CHECKING:
    from vknn.kernel_lab import Lab

ACTIONS = """\
actions:
  extract MODEL FOLDER [--layer NAME] [--dispatch N]
  run FOLDER [--device NAME] [--runs N] [--tolerance SHARE] [--watch]
             [--sweep "NAME=value,value ..."] [--groups FORMULA] [--push NAME=FORMULA]
  adopt FOLDER [--apply]

vknn kernel ACTION --help lists all options of an action.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ACTIONS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    _add_extract(actions.add_parser("extract", help="write one dispatch of a model as a folder"))
    _add_run(
        actions.add_parser(
            "run", help="run and time a folder's kernel, and hold it against what is right"
        )
    )
    adopt = actions.add_parser("adopt", help="show the difference from the kernel that vknn ships")
    adopt.add_argument("folder", type=Path, help="a folder that extract wrote")
    adopt.add_argument(
        "--apply",
        action="store_true",
        help="write the folder's files over those of the checkout that vknn runs from",
    )
    add_json(adopt)


def run(args: argparse.Namespace) -> int | None:
    """Extraction, run or adoption of a kernel."""
    return {"extract": _extract, "run": _run, "adopt": _adopt}[args.action](args)


def _add_extract(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("folder", type=Path, help="the folder to write: a new one, or empty")
    parser.add_argument("--layer", metavar="NAME", help="the layer that the dispatch computes")
    parser.add_argument(
        "--dispatch",
        type=int,
        metavar="N",
        help="the dispatch's number; without it, or a layer of one dispatch, all are listed",
    )
    add_inputs(parser, random=True)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="a folder that extract wrote")
    parser.add_argument(
        "--device", default="auto", metavar="NAME", help="as of the other commands (auto)"
    )
    parser.add_argument(
        "--null-device",
        action="store_true",
        help="allow a device that computes nothing: registers and spills, no times",
    )
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="timed runs (20)")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="SHARE",
        help="error allowed, as a share of the largest number (what the operator explains)",
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--watch", action="store_true", help="run it each time that its GLSL is saved; Ctrl-C ends"
    )
    ways.add_argument(
        "--sweep",
        metavar='"NAME=value,value ..."',
        help="run all combinations of values of constants, macros and LX, LY, LZ (the lanes)",
    )
    parser.add_argument(
        "--groups",
        metavar="FORMULA",
        help='with --sweep: the workgroups, such as "ceil(total / LX), 1, 1"',
    )
    parser.add_argument(
        "--push",
        action="append",
        default=[],
        metavar="NAME=FORMULA",
        help="with --sweep: a push constant that follows the others",
    )
    add_json(parser)


def _extract(args: argparse.Namespace) -> None:
    from vknn.kernel_lab import NoSingleDispatchError, extract

    with opened(args) as session:
        try:
            lab = extract(
                session,
                args.folder,
                layer=args.layer,
                dispatch=args.dispatch,
                inputs=read_feeds(args, session),
                shapes=shapes(args, session),
                seed=args.seed,
            )
        except NoSingleDispatchError as error:
            print(*error.lines, sep="\n", file=sys.stderr)
            raise InputError(error.summary) from error
    described = lab.description
    if args.json:
        write_json(described.document())
        return
    size = sum(path.stat().st_size for path in args.folder.rglob("*") if path.is_file())
    layers = one_line(", ".join(described.layers)) or "-"
    print(f"{args.folder}: {described.kernel} for {layers}")
    print(f"{len(described.bindings)} bindings, {len(described.sources)} files of GLSL, ", end="")
    print(f"{size / 1e6:.1f} MB; next: vknn kernel run {args.folder}")


def _run(args: argparse.Namespace) -> int:
    from vknn.kernel_lab import Lab

    if args.sweep is None and (args.groups is not None or args.push):
        raise VknnError("--groups and --push are of a sweep: give --sweep, too")
    if args.tolerance is not None and not args.tolerance >= 0:
        raise VknnError("--tolerance takes a number of at least 0")
    with Lab.open(args.folder) as lab:
        if args.watch:
            return _watch(args, lab)
        if args.sweep is not None:
            return _sweep(args, lab)
        try:
            result = lab.run(args.device, runs=args.runs, tolerance=args.tolerance)
        except ShaderError as error:  # the compiler's lines as they are
            print(f"vknn: error: {error}", file=sys.stderr)
            return USER_ERROR
    if args.json:
        write_json(result.to_json())
    else:
        show(result)
    return 0 if result.ok else FAILED


def _sweep(args: argparse.Namespace, lab: Lab) -> int:
    push = {}
    for text in args.push:
        name, equals, formula = text.partition("=")
        if not equals:
            raise VknnError(f"--push: {text!r} is not NAME=FORMULA")
        push[name.strip()] = formula
    result = lab.sweep(
        args.sweep,
        args.device,
        groups=args.groups,
        push=push,
        runs=args.runs,
        tolerance=args.tolerance,
    )
    if args.json:
        write_json(result.to_json())
    else:
        show(result)
    return 0 if any(row.ok for row in result.rows) else FAILED


def _watch(args: argparse.Namespace, lab: Lab) -> int:
    """Lines as they come, until Ctrl-C."""
    import json

    from vknn.kernel_lab import watch

    if not args.json:
        print(f"{lab.folder}: watching glsl/ and lab.json; Ctrl-C ends", file=sys.stderr)
    try:
        for seen in watch(lab, args.device, runs=args.runs, tolerance=args.tolerance):
            print(json.dumps(seen.document()) if args.json else seen.line(), flush=True)
    except KeyboardInterrupt:
        return 0
    return 0


def _adopt(args: argparse.Namespace) -> None:
    from vknn.kernel_lab import Lab, adoption

    found = adoption(Lab.open(args.folder))
    written = [str(path) for path in found.apply()] if args.apply else []
    if args.json:
        document = {"diff": found.diff, "changed": found.changed, "moved": found.moved}
        write_json({**document, "written": written})
        return
    print(found.diff, end="")
    if not found.changed:
        print("the kernel is the shipped one", file=sys.stderr)
    for path in found.moved:
        print(f"vknn: warning: {path} changed in vknn since the extraction", file=sys.stderr)
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
