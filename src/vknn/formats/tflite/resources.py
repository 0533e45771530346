"""Resources of a file: variables and hash tables, which a session keeps from run to run.

A variable is named by its container and shared name, a table by its number, whatever tensors and
subgraphs their handles stand in. A handle is a tensor that holds the number of its resource in the
file. What a resource holds is state of the session, under names that no input or output has: the
array of a variable, the keys and values of a table, and for each subgraph that a CALL_ONCE names
whether it has run.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from vknn.formats.tflite.records import ModelRecord, OperatorRecord
from vknn.formats.tflite.tensors import DTYPES
from vknn.graph import DType, TensorType, Value
from vknn.graph.graph import unique_name

#: Operators that give a handle.
MAKERS = ("VAR_HANDLE", "HASHTABLE")


@dataclass(frozen=True)
class Resource:
    """A variable (``states``: the name of its state) or a table (those of its keys and values).

    ``types``: of a table, those of its keys and values.
    """

    label: str
    states: tuple[str, ...]
    types: tuple[DType, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it is a hash table."""
        return len(self.states) == 2


class Resources:
    """The resources of a file by number, and the names of its state.

    Attributes:
        names: Names of all state, each with what errors call it; none for whether a CALL_ONCE
            has run, which is nothing of the file's.
    """

    def __init__(self, record: ModelRecord) -> None:
        taken = {t.name for g in record.subgraphs for t in g.tensors}
        taken |= {name for s in record.signatures for name in (*s.inputs, *s.outputs)}
        self._taken = taken
        self._numbers: dict[tuple[str, object], int] = {}
        self._all: list[Resource] = []
        self._once: dict[int, str] = {}
        for graph in record.subgraphs:
            for operator in graph.operators:
                self._note(operator)
        self.names = {name: found.label for found in self._all for name in found.states}
        self.names |= dict.fromkeys(self._once.values(), "")

    def number(self, operator: OperatorRecord) -> int:
        """Number of the resource that a VAR_HANDLE or HASHTABLE stands for."""
        return self._numbers[_key(operator)]

    def of(self, handle: np.ndarray) -> Resource:
        """The resource of a handle."""
        return self._all[int(handle.reshape(-1)[0])]

    def once(self, subgraph: int) -> str:
        """Name of the state that is there when a CALL_ONCE has run this subgraph."""
        return self._once[subgraph]

    def _note(self, operator: OperatorRecord) -> None:
        if operator.code == "CALL_ONCE":
            number = operator.options["init_subgraph_index"]
            if number not in self._once:
                self._once[number] = self._name(f"once:{number}")
        elif operator.code in MAKERS and _key(operator) not in self._numbers:
            self._numbers[_key(operator)] = len(self._all)
            self._all.append(self._made(operator))

    def _made(self, operator: OperatorRecord) -> Resource:
        options = operator.options
        if operator.code == "HASHTABLE":
            name = f"table:{options['table_id']}"
            states = self._name(f"{name}:keys"), self._name(f"{name}:values")
            return Resource(f"table {options['table_id']}", states, table_types(operator))
        container = options["container"]
        name = f"{container}/{options['shared_name']}" if container else options["shared_name"]
        return Resource(f"variable {name!r}", (self._name(f"variable:{name}"),))

    def _name(self, stem: str) -> str:
        name = unique_name(stem, self._taken)
        self._taken.add(name)
        return name


def table_types(operator: OperatorRecord) -> tuple[DType, ...]:
    """Types of a HASHTABLE's keys and values, as far as they are known types."""
    numbers = operator.options["key_dtype"], operator.options["value_dtype"]
    return tuple(DTYPES[n] for n in numbers if n in DTYPES)


def _key(operator: OperatorRecord) -> tuple[str, object]:
    options = operator.options
    if operator.code == "HASHTABLE":
        return operator.code, options["table_id"]
    return operator.code, (options["container"], options["shared_name"])


@dataclass
class GraphState:
    """The session's state while a graph is built that reads and writes it.

    ``values``: what holds a value by now; ``assigned``: names that were written since the run
    began.
    """

    resources: Resources
    values: dict[str, Value] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)

    def copy(self) -> GraphState:
        """A copy, to go on with where it is not sure that the graph does."""
        return GraphState(self.resources, dict(self.values), set(self.assigned))

    def assign(self, name: str, value: Value) -> None:
        """Assignment of a value to what the state ``name`` holds."""
        self.values[name] = value
        self.assigned.add(name)

    @property
    def results(self) -> dict[str, Value]:
        """Values that were written, by name."""
        return {name: self.values[name] for name in sorted(self.assigned)}


@dataclass
class HeldState:
    """The session's state while it runs graph by graph: ``arrays`` of what holds a value by now.

    ``assigned``: as of :class:`GraphState`.
    """

    arrays: dict[str, np.ndarray]
    assigned: set[str]

    def assign(self, name: str, array: np.ndarray) -> None:
        """Assignment of an array to what the state ``name`` holds."""
        self.arrays[name] = array
        self.assigned.add(name)

    @property
    def types(self) -> dict[str, TensorType]:
        """Types of the arrays."""
        return {name: TensorType.of(array) for name, array in self.arrays.items()}

    @property
    def key(self) -> Hashable:
        """Key of the graphs that go on: the types, and the names of what was written before."""
        return frozenset(self.types.items()), frozenset(self.assigned)
