"""Schema of a static profile's document: what ``vknn profile --static --json`` writes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from vknn.json_file import beginning
from vknn.profiling.invocation import Tally
from vknn.profiling.modelled.times import Bound
from vknn.profiling.schema import (
    Schema,
    Wrong,
    amount,
    count,
    flag,
    list_of,
    maybe,
    number,
    object_of,
    one_of,
    table_of,
    text,
)
from vknn.profiling.static_entry import NAMES, StaticEntry

#: The most bytes of such a file: one of 2,000 dispatches with texts has a tenth of them.
MAX_BYTES = 256 << 20
_BEGIN = re.compile(rb'\s*{\s*"model"\s*:\s*"')


def is_static(path: Path) -> bool:
    """Whether a file begins as static profiles do."""
    return _BEGIN.match(beginning(path)) is not None


def check_static(document: Any) -> None:
    """Check of all fields of a document; raises :class:`Wrong` for the first that does not fit.

    What older versions did not write may be missing.
    """
    _PROFILE(document, "")
    for place, entry in enumerate(document["dispatches"]):
        here = f"dispatches[{place}]"
        _ENTRY(entry, here)
        for name, schema in _NEWER.items():
            if name in entry:
                schema(entry[name], f"{here}.{name}")
        _exactly(entry, _FIELDS, here)
        for name in ("counts", "hot", "modelled"):
            if entry.get(name) is not None:
                _exactly(entry[name], _PARTS[name], f"{here}.{name}")


def _exactly(value: dict[str, Any], names: frozenset[str], at: str) -> None:
    unknown = sorted(value.keys() - names)
    if unknown:
        raise Wrong(f"{at}.{unknown[0][:60]}: there is no such field")


_TALLY = object_of(**{field.name: amount for field in fields(Tally)})
_HOT = object_of(rounds=amount, each=_TALLY)
_MODELLED = object_of(
    **dict.fromkeys(("time", "work", "latency", "memory", "overhead", "rounds"), amount),
    bound=one_of(*get_args(Bound)),
    share=maybe(amount),
    coarse=flag,
)
_SIZES = list_of(count, 3)
_ENTRY = object_of(
    layers=list_of(text),
    kernel=text,
    label=text,
    groups=_SIZES,
    local=_SIZES,
    subgroup_size=count,
    subgroups=maybe(count),
    **{name: maybe(amount) for name in NAMES},
    statistics=table_of(number),
)
_NEWER: dict[str, Schema] = {
    "counts": maybe(_TALLY),
    "hot": maybe(_HOT),
    "not_counted": text,
    "modelled": maybe(_MODELLED),
    "flags": list_of(text),
    "texts": table_of(text),
}
_PROFILE = object_of(model=text, device=text, dispatches=list_of(object_of()))
_FIELDS = frozenset(field.name for field in fields(StaticEntry))
_PARTS = {
    "counts": frozenset(field.name for field in fields(Tally)),
    "hot": frozenset(("rounds", "each")),
    "modelled": frozenset(
        (
            *("time", "work", "latency", "memory", "overhead"),
            *("bound", "rounds", "share", "coarse"),
        )
    ),
}
