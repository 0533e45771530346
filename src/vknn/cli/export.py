"""``vknn export``"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from vknn.bundle import TARGETS, Exported, ExportedPlan, export
from vknn.cli.arguments import add_model, add_signature, disabled, named, opened, shapes
from vknn.cli.feeds import given_inputs
from vknn.cli.inputs import is_array, read_input
from vknn.cli.output import show, write_json
from vknn.errors import InputError
from vknn.formats import TensorSpec
from vknn.pictures import ImageOptions
from vknn.session import Session
from vknn.tool_inputs import Shapes


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, device=False)
    add_signature(parser)
    group = parser.add_argument_group("bundle")
    group.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE.vkb", help="write it here"
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="[NAME=]N,N,N",
        help="shape of an input, where the model leaves it open; one given again begins a further "
        "set of shapes, a plan of its own, with all others as before",
    )
    group.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="NAME|FILE.json",
        help=f"what to plan for: {', '.join(TARGETS)}, or limits that `vknn devices --json` wrote "
        "(generic); of several a runner takes the first that suits its device",
    )
    group.add_argument(
        "--outputs",
        action="append",
        default=[],
        metavar="NAMES",
        help="outputs or blobs, by comma or given again: the network ends there",
    )
    group.add_argument(
        "--fixed",
        action="append",
        default=[],
        metavar="NAME=NUMBERS|FILE.npy",
        help="numbers of an input that become part of the network",
    )
    example = group.add_mutually_exclusive_group()
    example.add_argument(
        "--example",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=".npy or .npz: the input of the example that `vknn-run --test` runs (made up)",
    )
    example.add_argument("--no-example", action="store_true", help="leave the example out")


def run(args: argparse.Namespace) -> int:
    """Export of a model; opens no device."""
    with opened(args, device="cpu") as session:
        done = export(
            session,
            args.output,
            weights=args.weights,
            shapes=_sets(args.shape, session),
            targets=args.target or ("generic",),
            precision=args.precision,
            arithmetic=args.arithmetic,
            disable=disabled(args),
            outputs=args.outputs or None,
            fixed=_fixed(args.fixed, session),
            example=not args.no_example and (_example(args.example, session) or True),
        )
    if args.json:
        write_json(done.to_json())
    else:
        _show(done)
    return 0


def _sets(texts: Sequence[str], session: Session) -> list[Shapes]:
    """The sets of shapes: a name that is there already begins the next."""
    sets: list[dict[str, tuple[int, ...]]] = [{}]
    own: set[str] = set()
    for text in texts:
        [(name, dims)] = shapes(argparse.Namespace(shape=[text]), session).items()
        if name in own:
            sets.append(dict(sets[-1]))
            own = set()
        sets[-1][name] = dims
        own.add(name)
    return [*sets]


def _fixed(texts: Sequence[str], session: Session) -> dict[str, np.ndarray]:
    specs = {spec.name: spec for spec in session.inputs}
    return {
        name: _array(specs[name], text) for name, text in named(texts, session, "value").items()
    }


def _array(spec: TensorSpec, text: str) -> np.ndarray:
    """The array of a file, or of numbers with commas, in the input's dtype and shape; one number
    has no axes."""
    if is_array(Path(text)):
        return read_input(Path(text), spec.name, None, ImageOptions())
    wrong = InputError(f"input {spec.name!r} is of {spec.dtype_name}, which {text!r:.80} is not")
    try:
        numbers = [_number(part.strip().lower()) for part in text.split(",")]
        if spec.fixed is not None and len(numbers) not in (1, math.prod(spec.fixed)):
            raise ValueError
    except ValueError:
        raise InputError(
            f"input {spec.name!r}: {text!r:.80} is neither as many numbers as it has, "
            "as in 1,2.5, nor one for all of them, nor a .npy file"
        ) from None
    try:
        # As objects first: integers beyond 2^53 are no float64.
        array = np.array(numbers, object).astype(spec.dtype)
    except (ValueError, OverflowError, TypeError):  # infinite, or beyond the type
        raise wrong from None
    if array.tolist() != numbers and spec.dtype.kind != "f":
        raise wrong
    if array.size == 1:
        return array.reshape(())  # which is spread over each set of shapes
    return array if spec.fixed is None else array.reshape(spec.fixed)


def _number(text: str) -> int | float:
    """A number, or what a truth value is; whole ones are exact. Raises ValueError."""
    if text in ("true", "false"):
        return int(text == "true")
    with contextlib.suppress(ValueError):
        return int(text)
    return float(text)


def _example(texts: Sequence[str], session: Session) -> dict[str, np.ndarray]:
    for text in texts:
        if not is_array(Path(text.rpartition("=")[2])):
            raise InputError(f"--example {text}: an example is a .npy or a .npz file")
    return dict(given_inputs(argparse.Namespace(input=texts), session, None).feeds)


def _precision(plan: ExportedPlan) -> str:
    return plan.precision + (", fp16 arithmetic" if plan.arithmetic == "fp16" else "")


def _show(done: Exported) -> None:
    table = Table("target", "shapes", "precision", title=str(done.path), title_justify="left")
    for name in ("steps", "weights", "memory"):
        table.add_column(name, justify="right")
    table.add_column("asks for")
    for plan in done.plans:
        table.add_row(
            plan.target, plan.shapes, _precision(plan), str(plan.steps),
            f"{plan.weights / 1e6:.1f} MB", f"{plan.memory / 1e6:.1f} MB",
            ", ".join(plan.needs["features"]) or "nothing optional",
        )  # fmt: skip
    show(table)
    show(f"{done.nbytes:,} bytes, SHA-256 {done.sha256}")
