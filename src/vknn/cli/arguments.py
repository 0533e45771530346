"""Arguments that several commands take, and what they mean."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vknn import environment
from vknn.cli.inputs import add_image_arguments
from vknn.errors import InputError, VknnError
from vknn.formats.layer_files import run_layer_files
from vknn.named_files import temporary_folder
from vknn.precision import ARITHMETICS, PRECISIONS, names_file
from vknn.session import Session, by_signature
from vknn.tool_inputs import needed_inputs


def add_model(parser: argparse.ArgumentParser, optional: bool = False, device: bool = True) -> None:
    """The model (``optional``: or none), its weights and the device (where ``device`` is True)."""
    parser.add_argument("model", type=Path, nargs="?" if optional else None, help="the model file")
    group = parser.add_argument_group("model and device" if device else "model")
    weights = group.add_mutually_exclusive_group()
    weights.add_argument(
        "--weights", type=Path, metavar="FILE", help="the weights file, if not beside the model"
    )
    weights.add_argument(
        "--random-weights", action="store_true", help="make up weights (ncnn .param without .bin)"
    )
    if device:
        _add_device(group)
    group.add_argument(
        "--precision",
        type=precision,
        default="fp32",
        metavar="{fp32,fp16,bf16,FILE.json}",
        help="how the device stores tensors and weights (fp32); it computes in fp32. A file has "
        "precisions by layer (verify --advise writes one)",
    )
    group.add_argument(
        "--arithmetic",
        choices=ARITHMETICS,
        default="fp32",
        help="what convolutions and matrix products multiply in, with --precision fp16 (fp32)",
    )
    group.add_argument(
        "--layers",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="run this first: it registers layers of one's own (docs/custom-layers.md)",
    )
    group.add_argument(
        "--disable", default="", metavar="NAMES", help="passes and parts to switch off, by comma"
    )
    add_json(parser)


def _add_device(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="auto, vulkan, vulkan:1, uuid:... or pci:0000:3b:00.0 (vknn devices lists them), part "
        "of a name, or numpy or cpu (the reference, in NumPy)",
    )
    group.add_argument(
        "--null-device",
        action="store_true",
        help="allow a device that computes nothing (a driver without its GPU), named by --device",
    )


def precision(text: str) -> str:
    """A precision, or the name of a file of precisions, which whoever opens a session reads."""
    if text not in PRECISIONS and not names_file(text):
        known = ", ".join(PRECISIONS)
        raise argparse.ArgumentTypeError(f"{text!r} is none of {known}, and no .json file")
    return text


def add_signature(parser: argparse.ArgumentParser) -> None:
    """The signature that is run."""
    parser.add_argument(
        "--signature",
        metavar="NAME",
        help="run this signature of a TensorFlow Lite model (vknn info lists them), by its names",
    )


def add_inputs(parser: argparse.ArgumentParser, random: bool) -> None:
    """Arrays and images; ``random``: inputs that are not given are made up."""
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=".npy, .npz (arrays by input name) or an image"
        + ("; random values for inputs that are not given" if random else ""),
    )
    if random:
        add_shape(group)
        group.add_argument("--seed", type=int, default=0, metavar="N", help="of random values (0)")
    add_image_arguments(parser)


def add_shape(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="[NAME=]N,N,N",
        help="shape of an input, where the model leaves it open",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def add_runs(parser: argparse.ArgumentParser, runs: int, warmup: int) -> None:
    for name, count, what in (
        ("runs", runs, "runs to time"),
        ("warmup", warmup, "runs before that"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=count, metavar="N", help=f"{what} ({count})"
        )


@dataclass(frozen=True)
class ModelFiles:
    """A model file and its weights file (None: beside it)."""

    model: Path
    weights: Path | None


@contextmanager
def model_files(args: argparse.Namespace) -> Iterator[ModelFiles]:
    """The files of the model; random weights live as long as this."""
    if not args.random_weights:
        yield ModelFiles(args.model, args.weights)
        return
    if not args.model.name.endswith((".param", ".param.bin")):
        raise VknnError("--random-weights is for ncnn .param and .param.bin files")
    from vknn.formats.ncnn.random_weights import write_random_weights

    with temporary_folder() as folder:
        weights = Path(folder) / "random.bin"
        write_random_weights(args.model, weights)
        yield ModelFiles(args.model, weights)


def disabled(args: argparse.Namespace) -> frozenset[str]:
    """The names given with --disable."""
    return environment.parts(args.disable, "--disable")


@contextmanager
def opened(args: argparse.Namespace, device: str | None = None) -> Iterator[Session]:
    """A session for the model on the device asked for (or ``device``)."""
    run_layer_files(args.layers)
    with ExitStack() as stack:
        files = stack.enter_context(model_files(args))
        selector = args.device if device is None else device
        session = Session(
            files.model,
            files.weights,
            device=selector,
            precision=args.precision,
            arithmetic=args.arithmetic,
            disable=disabled(args),
        )
        stack.enter_context(session)
        yield by_signature(session, getattr(args, "signature", None))


def named(values: Sequence[str], session: Session, what: str) -> dict[str, str]:
    """NAME=VALUE pairs; the name may be left out where the model needs one input."""
    names, needed = [spec.name for spec in session.inputs], needed_inputs(session)
    found: dict[str, str] = {}
    for text in values:
        # A name may hold "=" and a path may too: the longest known name in front wins.
        fitting = [n for n in names if text.startswith(f"{n}=")]
        if fitting:
            name = max(fitting, key=len)
            value = text[len(name) + 1 :]
        elif len(needed) == 1 and ("=" not in text or (what == "file" and Path(text).exists())):
            name, value = needed[0].name, text
        else:
            raise InputError(f"{_no_input(text)}; the inputs are {', '.join(names) or 'none'}")
        if name in found:
            raise InputError(f"two {what}s for input {name!r}")
        found[name] = value
    return found


def _no_input(text: str) -> str:
    front, equals, _ = text.partition("=")
    return f"there is no input {front!r}" if equals else f"{text!r} does not start with NAME="


def shapes(args: argparse.Namespace, session: Session) -> dict[str, tuple[int, ...]]:
    """The shapes given with --shape."""
    return {name: _shape(text) for name, text in named(args.shape, session, "shape").items()}


def rows(text: str) -> int:
    """Number of a table's rows."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return int(text)


def _shape(text: str) -> tuple[int, ...]:
    parts = text.lower().replace("x", ",").split(",")
    if not all(p.strip().isdecimal() for p in parts):
        raise InputError(f"{text!r} is no shape: write it as 3,224,224")
    return tuple(int(p) for p in parts)
