"""Times on the command line."""

from __future__ import annotations

import argparse
import re

_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Seconds of a time such as 60s or 5m."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 60s or 5m")
    return float(found[1]) * _UNITS[found[2]]
