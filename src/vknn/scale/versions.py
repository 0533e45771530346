"""Versions of what computes, reads and writes, as job.json keeps them."""

from __future__ import annotations

import contextlib
import platform
from importlib.metadata import PackageNotFoundError, version

from vknn import __version__


def versions() -> dict[str, str]:
    """Name -> version of vknn, Python, and the packages that are installed."""
    found = {"vknn": __version__, "python": platform.python_version()}
    for name in ("numpy", "pyarrow", "pillow", "ray"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
