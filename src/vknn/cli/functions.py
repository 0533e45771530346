"""Python functions that options name."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from vknn.errors import VknnError


def function_named(text: str, option: str) -> Callable[..., Any]:
    """The function that MODULE:FUNCTION or FILE.py:FUNCTION names; this runs the module.

    Raises VknnError.
    """
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name:
        raise VknnError(f"{option} {text!r}: write it as MODULE:FUNCTION or FILE.py:FUNCTION")
    try:
        if module.endswith(".py"):
            found = runpy.run_path(module).get(name)
        else:
            if "" not in sys.path:
                sys.path.insert(0, "")  # as python -m does: modules of the folder one is in
            found = getattr(import_module(module), name, None)
    except VknnError:
        raise
    except Exception as error:
        raise VknnError(f"{option} {text}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise VknnError(f"{option} {text}: there is no function {name} in {module}")
    return found
