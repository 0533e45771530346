"""Optional packages: pyarrow and Ray, imported when they are first needed."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from vknn.errors import VknnError

_REMEDY = 'pip install "vknn[ray]"'
#: The first pyarrow whose Parquet has tensors of one shape that are null: rows with errors.
_ARROW = 26


#: Modules that were imported to their ends: some are asked for several times a batch.
_modules: dict[str, Any] = {}


def arrow() -> Any:
    """The module pyarrow. Raises VknnError where it is missing or too old."""
    module = _imported("pyarrow", "tables are read and written with pyarrow")
    if int(module.__version__.partition(".")[0]) < _ARROW:
        raise VknnError(
            f"tables are read and written with pyarrow {_ARROW} or newer; here is "
            f"{module.__version__}, which knows no tensors that are null: {_REMEDY}"
        )
    return module


def arrow_part(name: str) -> Any:
    """A module of pyarrow, such as "parquet". Raises as :func:`arrow` does."""
    arrow()
    return _imported(f"pyarrow.{name}", "tables are read and written with pyarrow")


def ray_module(name: str = "ray") -> Any:
    """Ray, or a module of it. Raises VknnError where it is missing."""
    return _imported(name, "work is spread over devices and machines with Ray")


def has_ray() -> bool:
    """Whether Ray is installed."""
    return find_spec("ray") is not None


def _imported(name: str, what: str) -> Any:
    found = _modules.get(name)
    if found is None or sys.modules.get(name) is not found:
        try:
            found = _modules[name] = import_module(name)
        except ImportError as error:
            raise VknnError(f"{what}, which cannot be imported ({error}): {_REMEDY}") from None
    return found
