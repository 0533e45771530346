"""Attributes: base of frozen classes that are compared, hashed and shown by their fields.

``dataclass(frozen=True)`` writes and compiles six methods a class. There are hundreds of operators
and layers, all of which are made when vknn is imported, so that most of the time of an import went
there. Here all six are inherited.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def attributes(cls: type[T]) -> type[T]:
        """Makes a subclass of Attributes a dataclass of its annotated fields."""

else:

    def attributes(cls):
        if cls.__doc__ is None:
            cls.__doc__ = ""  # dataclass would write the signature there, which takes a while
        return dataclasses.dataclass(cls, init=False, repr=False, eq=False)


@functools.cache
def _defaults(cls: Any) -> dict[str, Callable[[], Any] | None]:
    """Maker of the default of each field of the class, in order; None where there is none."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {field.name: _default(field) for field in fields}


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default is not dataclasses.MISSING:
        return lambda: field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory


class Attributes:
    """Base of classes decorated with :func:`attributes`: each field is set once."""

    __match_args__: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls: Any = type(self)
        defaults = _defaults(cls)
        given = dict(zip(defaults, args, strict=False)) | kwargs
        if len(given) < len(args) + len(kwargs) or not given.keys() <= defaults.keys():
            raise TypeError(f"{type(self).__qualname__} takes each of {', '.join(defaults)} once")
        for name, default in defaults.items():
            if name in given:
                self.__dict__[name] = given[name]
            elif default is not None:
                self.__dict__[name] = default()
            else:
                raise TypeError(f"{type(self).__qualname__} needs {name!r}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Called when all fields are set."""

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
