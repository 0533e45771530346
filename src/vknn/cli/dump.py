"""``vknn dump``"""

from __future__ import annotations

import argparse
from pathlib import Path

from vknn.cli.arguments import add_inputs, add_model, opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import show, write_json
from vknn.crosscheck.tensors import ALL, OUTPUTS, dump, write_tensors


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser, random=True)
    group = parser.add_argument_group("tensors")
    group.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE.npz", help="write them here"
    )
    group.add_argument(
        "--tensors",
        default=OUTPUTS,
        metavar="NAMES",
        help="names by comma, all, or outputs (outputs); the inputs are always among them",
    )


def run(args: argparse.Namespace) -> int:
    """Tensors of a run, written to a file."""
    names = args.tensors if args.tensors in (ALL, OUTPUTS) else args.tensors.split(",")
    with opened(args) as session:
        found = dump(
            session,
            read_feeds(args, session),
            tensors=names,
            shapes=shapes(args, session),
            seed=args.seed,
        )
    write_tensors(args.output, found)
    if args.json:
        rows = [
            {"name": name, "shape": list(a.shape), "dtype": str(a.dtype)}
            for name, a in found.items()
        ]
        write_json({"file": str(args.output), "tensors": rows})
    else:
        show(f"{len(found)} tensors in {args.output}")
    return 0
