"""Mutators of protobuf messages: fields, by the schema."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

from fuzzing.values import FLOATS, clipped, integer, real

_SIGNED = (Field.CPPTYPE_INT32, Field.CPPTYPE_INT64)
_UNSIGNED = (Field.CPPTYPE_UINT32, Field.CPPTYPE_UINT64)
_REAL = (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE)
#: Names that occur in few places are worth as much as those in many.
_SHORT = 64


def messages(message: Message) -> Iterator[Message]:
    """A message and all below it."""
    yield message
    for field, value in message.ListFields():
        if field.cpp_type != Field.CPPTYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            parts = value.values() if inner.cpp_type == Field.CPPTYPE_MESSAGE else ()
        else:
            parts = value if field.is_repeated else (value,)
        for part in parts:
            yield from messages(part)


def mutate(rng: random.Random, model: Message, other: Callable[[], Message]) -> str:
    """One change of a message or of one below it; what was done. ``other``: gives parts, too."""
    everything = list(messages(model))
    chosen = rng.choice(everything)
    kind = chosen.DESCRIPTOR.name
    if rng.random() < 0.12:
        every = [*messages(other()), *everything]
        donors = [m for m in every if m.DESCRIPTOR is chosen.DESCRIPTOR]
        if len(donors) > 1:
            chosen.CopyFrom(copy.deepcopy(rng.choice(donors)))
            return f"splice {kind}"
    present = [f for f, _ in chosen.ListFields()]
    fields = present if present and rng.random() < 0.8 else list(chosen.DESCRIPTOR.fields)
    if not fields:
        return "nothing"
    field = rng.choice(fields)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        chosen.ClearField(field.name)
        return f"clear {kind}.{field.name}"
    if rng.random() < 0.06:
        chosen.ClearField(field.name)
        return f"clear {kind}.{field.name}"
    if field.is_repeated:
        return _list(rng, getattr(chosen, field.name), field, kind)
    if field.cpp_type == Field.CPPTYPE_MESSAGE:
        getattr(chosen, field.name).SetInParent()
    else:
        setattr(chosen, field.name, _value(rng, field, getattr(chosen, field.name)))
    return f"set {kind}.{field.name}"


def _list(rng: random.Random, values: Any, field: Field, kind: str) -> str:
    """A repeated field with an entry deleted, doubled, swapped, changed or added."""
    label = f"{kind}.{field.name}"
    is_message = field.cpp_type == Field.CPPTYPE_MESSAGE
    if not len(values):
        if is_message:
            values.add()
        else:
            values.append(_value(rng, field, field.default_value or 0))
        return f"add {label}"
    way, place = rng.randrange(5), rng.randrange(min(len(values), 1 << 16))
    if way == 0:
        del values[place]
        return f"delete {label}"
    if way == 1:
        values.append(copy.deepcopy(values[place]))
        return f"double {label}"
    if way == 2 and is_message:
        first, second = copy.deepcopy(values[place]), rng.randrange(len(values))
        values[place].CopyFrom(values[second])
        values[second].CopyFrom(first)
        return f"swap {label}"
    if is_message:
        values[place].Clear()
        return f"empty {label}"
    values[place] = _value(rng, field, values[place])
    return f"change {label}"


def _value(rng: random.Random, field: Field, old: Any) -> Any:
    if field.cpp_type in _SIGNED:
        bits = 32 if field.cpp_type == Field.CPPTYPE_INT32 else 64
        return clipped(integer(rng, int(old or 0), wide=True), bits, signed=True)
    if field.cpp_type in _UNSIGNED:
        bits = 32 if field.cpp_type == Field.CPPTYPE_UINT32 else 64
        return clipped(integer(rng, int(old or 0), wide=True), bits, signed=False)
    if field.cpp_type in _REAL:
        value = real(rng, float(old or 0))
        return value if abs(value) < 3.4e38 or value != value else float("inf")
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return not old
    if field.cpp_type == Field.CPPTYPE_ENUM:
        numbers = [v.number for v in field.enum_type.values]
        return rng.choice([*numbers, max(numbers) + 1])
    if field.type == Field.TYPE_BYTES:
        data = bytes(old or b"")
        return rng.choice((b"", data[:-1], data + b"\0", rng.randbytes(len(data) or 8)))
    return rng.choice(("", "x" * 300, f"{old or ''}1", str(FLOATS[0]), str(old or "a")[:_SHORT]))
