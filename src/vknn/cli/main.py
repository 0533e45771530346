"""Command line: its arguments are read and a command is run.

Exit codes: 0 well, 1 a check failed, 2 the user's error, 3 an error of vknn itself, 130 stopped.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import errno
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from vknn import __version__
from vknn.cli.complaints import FAILED, INTERNAL_ERROR, STOPPED, USER_ERROR, error_text
from vknn.errors import NullDeviceError, VknnError, naming

#: Name of each command and what it does; module ``vknn.cli.<name>`` has ``add`` and ``run``.
COMMANDS = {
    "devices": "list the Vulkan devices",
    "info": "show a model's inputs, outputs, layers, graph or plan",
    "run": "run a model on arrays or images",
    "verify": "run every operator on the device and with NumPy, and compare",
    "dump": "write the tensors of a run to a .npz file",
    "batch": "run a model on all records of a source, and write the answers as Parquet",
    "batch-node": "print the options of `ray start` by which a machine offers its devices",
    "profile": "time every dispatch",
    "report": "show a profile that was saved",
    "bundle": "show what is in a bundle, and run its example here",
    "compare": "compare two saved profiles, or a model with another engine's tensors",
    "bench": "time whole runs, the cold start and device memory",
    "kernel": "work on one kernel of a model: extract it, run it alone, adopt what came of it",
    "reduce": "reduce a model that fails to the least part of it that still fails",
    "bisect": "find the pass, kernel, feature or tuned choice without which a model does not fail",
    "export": "write a model as a bundle, which a C program runs without Python",
    "tune": "time every kernel that a layer could use, and remember the fastest",
}
#: Commands that a child process does, so that a driver which crashes or hangs leaves a sentence.
#: (``devices`` has one for each driver, ``batch`` goes on with another, and ``reduce`` and
#: ``bisect`` have theirs for each candidate.)
APART = {
    *("run", "verify", "bench", "dump", "profile", "tune", "info", "bundle", "compare", "kernel"),
    "batch-node",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: runs a command and gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    warnings.showwarning = _show_warning
    process = os.getpid()
    code = guarded(lambda: _run(arguments, apart=argv is None))
    if os.getpid() != process:  # a child that did the work; whoever called this goes on once
        end(code)
    return code


def console() -> NoReturn:
    """The process of a command, which ends with its exit code."""
    end(main())


def end(code: int) -> NoReturn:
    """End of the process, as multiprocessing ends its children.

    Python would take down all that is imported first, for 0.05 s, in a child and in its parent.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def guarded(work: Callable[[], int]) -> int:
    """Exit code of some work, whose errors become lines on stderr."""
    try:
        return work()
    except KeyboardInterrupt:
        return _complain("stopped", STOPPED)
    except BrokenPipeError:
        return _unread()
    except NullDeviceError as error:
        return _complain(f"error: {error_text(error)}", FAILED)
    except (VknnError, OSError) as error:
        # Windows' word for a pipe that nobody reads; files have names.
        if sys.platform == "win32" and getattr(error, "errno", 0) == errno.EINVAL:
            return _unread()
        return _complain(f"error: {error_text(error)}", USER_ERROR)
    except MemoryError as error:
        return _complain(f"error: host memory is exhausted: {error}", USER_ERROR)
    except Exception as error:
        text = f"{type(error).__name__}: {error_text(error)}"
        return _complain(f"internal error: {text} (VKNN_DEBUG=1 shows where)", INTERNAL_ERROR)


def _unread() -> int:
    """The exit code where whoever read our output went away: no more can be said to them."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return USER_ERROR


def _run(arguments: Sequence[str], *, apart: bool) -> int:
    """Run of the command that the arguments name.

    ``apart``: the process is the command's, and a child may do the work in its place.
    """
    parsed = _parsed(arguments)
    parsed.given = list(arguments)
    if getattr(parsed, "null_device", False):
        os.environ["VKNN_NULL_DEVICE"] = "1"
    model = getattr(parsed, "model", None)
    with naming(None if model is None else str(model)):
        code = _child(parsed.command) if apart else None
        if code is not None:
            return code
        code = int(import_module(f"vknn.cli.{_module(parsed.command)}").run(parsed) or 0)
        sys.stdout.flush()  # a full disk is an error of the command
        return code


def _child(command: str) -> int | None:
    """Exit code of the child that did a command's work; None where this process is to do it."""
    if command not in APART:
        return None
    from vknn.cli import child  # which loads the runtime

    return child.apart() if child.can_fork() else None


def _module(command: str) -> str:
    return command.replace("-", "_")


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments by name. What stands behind options belongs to the command's FILEs, too.

    argparse takes as many positional arguments as it can when it meets the first, so that those
    behind an option are left over.
    """
    parser = _parser(arguments)
    parsed, left = parser.parse_known_args(arguments)
    if left and hasattr(parsed, "files") and not any(text.startswith("-") for text in left):
        parsed.files = [*parsed.files, *map(Path, left)]
    elif left:
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return parsed


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the command that is called for is loaded."""
    parser = argparse.ArgumentParser(
        prog="vknn", description="Runs neural networks on any GPU with a Vulkan driver."
    )
    parser.add_argument("--version", action="version", version=f"vknn {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    wanted = next((a for a in arguments if not a.startswith("-")), None)
    for name, summary in COMMANDS.items():
        described = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=described)
        if name == wanted:
            import_module(f"vknn.cli.{_module(name)}").add(command)
    return parser


def _complain(message: str, code: int) -> int:
    """One line to stderr; with VKNN_DEBUG the traceback first."""
    if os.environ.get("VKNN_DEBUG", "0") not in ("", "0") and code != STOPPED:
        import traceback

        traceback.print_exc()
    print(f"vknn: {message}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *details: object, **more: object) -> None:
    print(f"vknn: warning: {message}", file=sys.stderr)
