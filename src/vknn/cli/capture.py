"""``vknn profile --capture``"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vknn import __version__
from vknn.cli.arguments import opened, shapes
from vknn.cli.feeds import read_feeds
from vknn.cli.output import write_json
from vknn.errors import VknnError
from vknn.profiling import renderdoc_capture
from vknn.tool_inputs import complete_feeds


def add_capture(parser: argparse.ArgumentParser) -> None:
    """Options of captures."""
    group = parser.add_argument_group("for other tools")
    group.add_argument(
        "--capture",
        choices=("renderdoc",),
        help="have one run captured by RenderDoc, in place of a profile",
    )
    group.add_argument(
        "--capture-file",
        type=Path,
        metavar="FILE",
        help="beginning of the capture's name (the model's, in this folder)",
    )


def refuse_half_capture(args: argparse.Namespace) -> None:
    """An error for a capture's file without a capture."""
    if args.capture is None and args.capture_file is not None:
        raise VknnError("--capture-file needs --capture")


def run_capture(args: argparse.Namespace) -> None:
    """Capture of one run, behind one that compiles the pipelines."""
    path = args.capture_file or Path(Path(args.model).stem)
    comment = f"vknn {__version__}: {args.model}"
    with renderdoc_capture(path, comment) as capture, opened(args) as session:
        if session.device is None:
            raise VknnError("nothing to capture: NumPy computes, not a device")
        feeds = complete_feeds(session, read_feeds(args, session), shapes(args, session))
        session.run(feeds)
        with capture.frame():
            session.run(feeds)
    if args.json:
        write_json(json.dumps({"captures": list(map(str, capture.files))}))
    else:
        print("\n".join(f"written: {file}" for file in capture.files))
