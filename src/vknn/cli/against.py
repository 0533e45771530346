"""``vknn compare MODEL --against ENGINE or RECORD``"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from vknn.cli.arguments import add_shape, precision, shapes
from vknn.cli.complaints import FAILED
from vknn.cli.output import show, write_json
from vknn.crosscheck import (
    AgainstReport,
    RecordComparison,
    against,
    compare_records,
    load_record,
)
from vknn.crosscheck.engines import ENGINES, TIMEOUT
from vknn.crosscheck.records import has_iterations, is_record
from vknn.errors import VknnError
from vknn.formats.layer_files import run_layer_files
from vknn.session import Session

#: Options of records, and those that need a model besides.
_OF_RECORDS = ("runner", "iteration", "tolerance", "failures")
_OF_MODELS = (
    "inputs", "timeout", "weights", "device", "precision", "seed", "shape", "layers",
)  # fmt: skip


def add_against(parser: argparse.ArgumentParser) -> None:
    """The options by which a model is held against another engine, live or recorded."""
    group = parser.add_argument_group(
        "a model against another engine's tensors, in place of profiles"
    )
    group.add_argument("--against", metavar="ENGINE or FILE", help="an engine that is installed "
        f"({', '.join(ENGINES)}), or its tensors by name: a .npz, as vknn dump writes them, or "
        "Polygraphy's .json (--save-outputs)")  # fmt: skip
    group.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help="the inputs, where the record has none: .npz, or Polygraphy's .json (--save-inputs); "
        "random ones for an engine",
    )
    group.add_argument(
        "--runner", metavar="NAME", help="the runner in Polygraphy's file, or a part of its name"
    )
    group.add_argument(
        "--iteration", type=int, metavar="N", help="the iteration in Polygraphy's file (0)"
    )
    group.add_argument(
        "--timeout", type=float, metavar="SECONDS", help=f"time that an engine has ({TIMEOUT:g})"
    )
    add_shape(group)
    group.add_argument("--seed", type=int, metavar="N", help="of random values (0)")
    group.add_argument(
        "--weights", type=Path, metavar="FILE", help="the weights file, if not beside the model"
    )
    group.add_argument("--device", help="the device to compute on (auto)")
    group.add_argument(
        "--precision", type=precision, metavar="NAME", help="storage of tensors (fp32)"
    )
    group.add_argument(
        "--tolerance",
        type=float,
        metavar="N",
        help="error allowed to a tensor, relative to its largest element",
    )
    group.add_argument("--layers", type=Path, action="append", default=[], metavar="FILE.py",
        help="run this first: it registers layers of one's own")  # fmt: skip
    group.add_argument(
        "--failures", action="store_true", help="show only tensors on which not all agree"
    )


def refuse_half(args: argparse.Namespace) -> None:
    """Check that options of one kind of comparison are not given to the other."""
    if args.against is None:
        records = are_records(args)
        for name in (*_OF_MODELS, *(() if records else _OF_RECORDS)):
            if getattr(args, name) not in (None, False, []):
                raise VknnError(f"--{name} needs --against")
        if args.after is None:
            raise VknnError(
                "give two saved profiles or records, or a model and --against with an engine or a "
                "file"
            )
    elif args.after is not None:
        raise VknnError(
            "--against compares one model with an engine or a record: leave out the second file"
        )


def are_records(args: argparse.Namespace) -> bool:
    """Whether two records of tensors are to be compared. Raises VknnError where only one is."""
    if args.against is not None or args.after is None:
        return False
    kinds = [is_record(path) for path in (args.before, args.after)]
    if any(kinds) and not all(kinds):
        raise VknnError(
            "one of the two is a record of tensors: give two of them, or a model and --against"
        )
    return all(kinds)


def run_records(args: argparse.Namespace) -> int:
    """The comparison of two records; the exit code is 1 where a tensor differs."""
    _refuse_profiles(args)
    dated = has_iterations(args.before) or has_iterations(args.after)
    if args.iteration is not None and not dated:
        raise VknnError("--iteration needs a file of Polygraphy's")
    sides = [
        load_record(
            path,
            args.runner if has_iterations(path) or not dated else None,
            args.iteration if has_iterations(path) else None,
        )
        for path in (args.before, args.after)
    ]
    found = compare_records(*sides, tolerance=args.tolerance)
    found = replace(found, before=str(args.before), after=str(args.after))
    return _reported(found, args)


def _refuse_profiles(args: argparse.Namespace) -> None:
    """Check that options of profiles are not given to tensors."""
    for name in ("paired", "in_turn", "fail_over", "markdown", "junit", "limit"):
        if getattr(args, name) not in (None, False):
            raise VknnError(f"--{name.replace('_', '-')} is for profiles")


def run_against(args: argparse.Namespace) -> int:
    """The comparison as a table or JSON; the exit code is 1 where a tensor differs."""
    _refuse_profiles(args)
    run_layer_files(args.layers)
    files = [Path(args.against), *([] if args.inputs is None else [args.inputs])]
    dated = [path for path in files if has_iterations(path)]
    if args.iteration is not None and not dated:
        raise VknnError("--iteration needs a file of Polygraphy's")
    inputs = None
    if args.inputs is not None:
        number = args.iteration if args.inputs in dated else None
        inputs = load_record(args.inputs, iteration=number)
    with Session(
        args.before,
        args.weights,
        device=args.device or "auto",
        precision=args.precision or "fp32",
    ) as session:
        report = against(
            session,
            args.against,
            inputs,
            iteration=args.iteration if files[0] in dated else None,
            shapes=shapes(args, session),
            weights=args.weights,
            **_given(args, "runner", "timeout", "seed", "tolerance"),
        )
    return _reported(report, args)


def _reported(report: AgainstReport | RecordComparison, args: argparse.Namespace) -> int:
    """The report as a page, and as tables or JSON; the exit code."""
    if args.html is not None:
        report.save_html(args.html)
    if args.json:
        write_json(report.to_json())
    else:
        show(report.table(args.failures))
        show(report.remarks())
    return 0 if report.ok else FAILED


def _given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}
