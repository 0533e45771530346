"""Optional packages: pyarrow and Ray, imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from vknn.errors import VknnError

_REMEDY = 'pip install "vknn[ray]"'


def arrow() -> Any:
    """The module pyarrow. Raises VknnError where it is missing."""
    return _imported("pyarrow", "tables are read and written with pyarrow")


def arrow_part(name: str) -> Any:
    """A module of pyarrow, such as "parquet". Raises VknnError where it is missing."""
    return _imported(f"pyarrow.{name}", "tables are read and written with pyarrow")


def ray_module(name: str = "ray") -> Any:
    """Ray, or a module of it. Raises VknnError where it is missing."""
    return _imported(name, "work is spread over devices and machines with Ray")


def has_ray() -> bool:
    """Whether Ray is installed."""
    return find_spec("ray") is not None


def _imported(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise VknnError(f"{what}, which cannot be imported ({error}): {_REMEDY}") from None
