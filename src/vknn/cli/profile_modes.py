"""Modes of ``vknn profile``: what a mode has no use for is refused by name, never dropped."""

from __future__ import annotations

import argparse

from vknn.cli.counters import LIST
from vknn.errors import VknnError

#: Runs of a profile by default, and those before them.
RUNS, WARMUP = 10, 2
#: What options that have a default are where nobody gave them.
_DEFAULTS = {"runs": RUNS, "warmup": WARMUP, "sort": "plan"}

_LEAVE = "leave one of them out"
_MEASURE = "add --save FILE or --html FILE, with which times are measured, too"
_KEEP = "--keep FOLDER keeps the profiles of both sides"
_STATIC = dict.fromkeys(("static", "isa", "latencies", "against", "time_limit"), _LEAVE)
_CAPTURE = dict.fromkeys(("capture", "capture_file"), _LEAVE)
_COUNTERS = {"counters": _LEAVE}
_PAGES = dict.fromkeys(("save", "html"), _LEAVE)
_MEASURED = ("trace", "compiled", "device_limits", "runs", "warmup", "sort")

#: What each mode has no use for, and what helps. A mode stands before those that it refuses.
_REFUSED: dict[str, dict[str, str]] = {
    "versus": {
        "save": _KEEP,
        **dict.fromkeys(("trace", "compiled", "device_limits"), _LEAVE),
        **_STATIC,
        **_COUNTERS,
        **_CAPTURE,
    },
    "capture": {
        **_PAGES,
        **dict.fromkeys((*_MEASURED, "limit"), _LEAVE),
        **_STATIC,
        **_COUNTERS,
    },
    "static": {"save": _LEAVE, **dict.fromkeys(_MEASURED, _LEAVE), **_COUNTERS},
    "counters": {**dict.fromkeys(_MEASURED, _MEASURE), **_STATIC},
    "counters list": {**_PAGES, **dict.fromkeys((*_MEASURED, "limit"), _LEAVE), **_STATIC},
}


def mode_of(args: argparse.Namespace) -> str:
    """The mode that is asked for: a key above, or "" for times, with whatever is to go with them.

    Raises VknnError for an option that the mode has no use for.
    """
    modes = ("versus", "capture", "static", "counters")
    mode = next((name for name in modes if _given(args, name)), "")
    if mode == "counters":
        if args.counters == LIST:
            mode = "counters list"
        elif args.save is not None or args.html is not None:
            mode = ""
    for name, remedy in _REFUSED.get(mode, {}).items():
        if _given(args, name):
            option = name.replace("_", "-")
            raise VknnError(f"--{mode} does not go with --{option}: {remedy}")
    return mode


def _given(args: argparse.Namespace, name: str) -> bool:
    value = getattr(args, name)
    return value is not None and value is not False and value != _DEFAULTS.get(name)
