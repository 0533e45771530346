"""Modules that are imported again because an interrupt ended their import half-way.

What they registered the first time is registered once more, which is no contradiction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def comes_again(known: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """True for the functions that one statement of a module made, each in an import of its own."""
    return (known.__module__, known.__qualname__) == (new.__module__, new.__qualname__)
