"""Classes that are their attributes: frozen, compared and shown by them.

``dataclass(frozen=True)`` writes and compiles six methods a class. There are hundreds of operators
and layers, all of which are made when vknn is imported, so that most of the time of an import went
there. Here five of the six are inherited, and only ``__init__`` is made.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar, dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def attributes(cls: type[T]) -> type[T]:
        """Makes a subclass of Attributes a dataclass of its annotated fields."""

else:
    attributes = functools.partial(dataclasses.dataclass, repr=False, eq=False)


class Attributes:
    """Base of classes decorated with :func:`attributes`: each field is set once."""

    __match_args__: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.__match_args__)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({shown})"
