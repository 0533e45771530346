"""Names of outputs, as users give them to a session's runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vknn.errors import InputError


def asked(given: Iterable[str]) -> tuple[str, ...]:
    """Names, each once; one may stand alone. Raises InputError for what is none."""
    names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"outputs are asked for by name, not by {type(name).__name__}")
    return tuple(dict.fromkeys(names))


def staying(on_device: bool | Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """Names, among these, of what stays on the device. Raises InputError for others."""
    if isinstance(on_device, bool):
        return tuple(names) if on_device else ()
    kept = asked(on_device)
    for name in kept:
        if name not in names:
            listed = ", ".join(map(repr, names))
            raise InputError(f"on_device: {name!r} is not among the outputs ({listed})")
    return kept
