"""``vknn compare MODEL --against RECORD.npz``"""

from __future__ import annotations

import argparse
from pathlib import Path

from vknn.cli.arguments import precision
from vknn.cli.complaints import FAILED
from vknn.cli.output import show, write_json
from vknn.crosscheck import against
from vknn.crosscheck.npz_files import load_npz
from vknn.errors import VknnError


def add_against(parser: argparse.ArgumentParser) -> None:
    """The options by which a model is held against a record of another engine."""
    group = parser.add_argument_group(
        "a model against another engine's tensors, in place of profiles"
    )
    add = group.add_argument
    add(
        "--against", type=Path, metavar="FILE.npz", help="tensors by name, as vknn dump writes them"
    )
    add("--inputs", type=Path, metavar="FILE.npz", help="the inputs, where the record has none")
    add("--weights", type=Path, metavar="FILE", help="the weights file, if not beside the model")
    add("--device", help="the device to compute on (auto)")
    add("--precision", type=precision, metavar="NAME", help="storage of tensors (fp32)")
    add("--tolerance", type=float, metavar="N", help="error allowed to a tensor, relative to its "
        "largest element")  # fmt: skip


def refuse_half(args: argparse.Namespace) -> None:
    """Check that options of one kind of comparison are not given to the other."""
    if args.against is None:
        for name in ("inputs", "weights", "device", "precision", "tolerance"):
            if getattr(args, name) is not None:
                raise VknnError(f"--{name} needs --against")
        if args.after is None:
            raise VknnError("give two saved profiles, or a model and --against FILE.npz")
    elif args.after is not None:
        raise VknnError("--against compares one model with a record: leave out the second file")


def run_against(args: argparse.Namespace) -> int:
    """The comparison as a table or JSON; the exit code is 1 where a tensor differs."""
    options = {
        name: getattr(args, name)
        for name in ("weights", "device", "precision", "tolerance")
        if getattr(args, name) is not None
    }
    inputs = None if args.inputs is None else load_npz(args.inputs)
    report = against(args.before, args.against, inputs, **options)
    if args.json:
        write_json(report.to_json())
    else:
        show(report)
    return 0 if report.ok else FAILED
