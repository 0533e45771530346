"""Checks of nodes against the signatures of their operators, before anything is built.

Element types are followed from the graph's inputs through nodes, subgraphs and functions as far as
signatures tell them; where they do not, a type is unknown and fits everywhere. So are those of the
results of users' operators.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NoReturn

from vknn.errors import ModelFormatError
from vknn.formats.custom import custom_layer
from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.records import (
    AttributeRecord,
    GraphRecord,
    Key,
    NodeRecord,
    OnnxModelRecord,
    TensorProtoRecord,
    TypeRecord,
)
from vknn.formats.onnx.signatures import LIST, OPTIONAL, OperatorSignature, SignaturePort, signature
from vknn.graph import DType

#: The name of an element type, LIST or OPTIONAL; None: unknown.
_Type = str | None
_Types = MutableMapping[str, _Type]
_NAMES = {dtype: dtype.value for dtype in DType}
#: In place of the type of an input that is not there.
_LEFT_OUT = ""
#: Operators that may have attributes that nobody knows, in onnxruntime, too; they count nothing.
_OPEN = {("", "LayerNormalization"), ("", "SimplifiedLayerNormalization")}
#: Files mix these: some versions list fewer of them than engines compute.
_FLOATS = frozenset(("float16", "float32", "float64", "bfloat16"))
#: Calls of functions and subgraphs inside one another that are looked into.
_MAX_DEPTH = 60
#: Attributes of Constant that are no tensors, with the type that they make.
_CONSTANTS = {
    "value_float": DType.FLOAT32, "value_floats": DType.FLOAT32, "value_int": DType.INT64,
    "value_ints": DType.INT64, "value_string": DType.STRING, "value_strings": DType.STRING,
}  # fmt: skip


def check_signatures(record: OnnxModelRecord, file: str | None = None) -> None:
    """Check of all nodes that may run; users' operators are not looked at.

    Raises ModelFormatError for an attribute that an operator lacks or that is of another kind, one
    that is missing, an input of a type that the operator does not take, and a value whose declared
    element type is another than that of what makes it.
    """
    checks = _Checks(record, file)
    checks.graph(record.graph, {}, _Place("", record.imports), ())


@dataclass(frozen=True)
class _Place:
    """Where nodes stand. ``attributes``: those of the call of a function.

    ``depth``: the number of calls and subgraphs around.
    """

    path: str
    imports: Mapping[str, int]
    attributes: Mapping[str, AttributeRecord] = field(default_factory=dict)
    depth: int = 0


class _Checks:
    """One model's checks. ``file``: its name in errors."""

    def __init__(self, record: OnnxModelRecord, file: str | None) -> None:
        self._functions, self._file = record.functions, file
        self._called: dict[tuple[Key, object], tuple[_Type, ...]] = {}
        self._seen: dict[object, Sequence[_Type]] = {}

    def graph(
        self, graph: GraphRecord, outer: _Types, place: _Place, given: Sequence[_Type]
    ) -> list[_Type]:
        """Types of a graph's outputs; ``given``: those of what is given to its inputs."""
        types: _Types = ChainMap({}, outer) if outer else {}  # which is quicker
        own = {value.name for value in graph.outputs}
        makers = {name for node in graph.nodes for name in node.outputs if name}
        for name, tensor in graph.initializers.items():
            types[name] = _NAMES[tensor.dtype]
        for number, value in enumerate(graph.inputs):
            declared, actual = _declared(value.type), given[number : number + 1]
            if actual:
                self._agree(value.name, declared, actual[0], place, None)
            types[value.name] = declared or (actual[0] if actual else None) or None
        for node in graph.nodes:
            made = self._node(node, types, place)
            for name, found in zip_longest(node.outputs, made[: len(node.outputs)]):
                if not name:
                    continue
                if name in outer:
                    what = f"makes {name!r}, which is the name of a value outside of this graph"
                    self._fail(node, place, what)
                if name in graph.declared and name not in own:
                    self._agree(name, graph.declared[name].value, found, place, node)
                types[name] = found
        ends = []
        for value in graph.outputs:
            found, declared = types.get(value.name), _declared(value.type)
            if value.name in makers:
                self._agree(value.name, declared, found, place, None)
            ends.append(found or declared)
        return ends

    def _node(self, node: NodeRecord, types: _Types, place: _Place) -> Sequence[_Type]:
        """Types of a node's outputs."""
        given = [types.get(name) if name else _LEFT_OUT for name in node.inputs]
        if node.key in self._functions:
            return self._call(node, given, types, place)
        # Nodes that differ in names alone are checked once.
        kinds = tuple([_kind(record) for record in node.attributes.values()])
        alike = (
            node.key, place.imports.get(node.key[0]), tuple(given), len(node.outputs),
            tuple(node.attributes), kinds,
        )  # fmt: skip
        inner: list[_Type] = []
        made = self._seen.get(alike)
        if made is None or "" in kinds or "" in node.outputs:
            found = _signature(node, place.imports)
            if found is not None:
                self._attributes(node, found, place)
            made = self._typed(node, found, given, place) if found is not None else ()
            inner = self._subgraphs(node, given, types, place)
            if "" not in kinds:
                self._seen[alike] = made
        known = _stated(node, place) or inner
        return [a or b for a, b in zip_longest(made, known)] if known else made

    # --- attributes -------------------------------------------------------------------------------

    def _attributes(self, node: NodeRecord, found: OperatorSignature, place: _Place) -> None:
        for name, attribute in node.attributes.items():
            if name.startswith("__"):  # marks of tools, which have no meaning
                continue
            kind = found.attributes.get(name)
            if kind is None and node.key[:2] in _OPEN:
                continue
            if kind is None:
                known = ", ".join(found.attributes) or "none"
                self._fail(node, place, f"has no attribute {name!r} (it has {known})", found)
            stated: AttributeRecord | None = attribute
            if attribute.reference:
                stated = place.attributes.get(attribute.reference)
            if stated is not None and stated.kind != kind:
                what = f"the attribute {name!r} is of the kind {stated.kind}, not {kind}"
                self._fail(node, place, what)
        for name in found.required - node.attributes.keys():
            self._fail(node, place, f"has no attribute {name!r}, which it must have")

    def _counts(self, node: NodeRecord, found: OperatorSignature, place: _Place) -> None:
        """Check of the numbers of inputs and outputs, and that none is left out that has to be."""
        for what, names, ports in (
            ("input", node.inputs, found.inputs),
            ("output", node.outputs, found.outputs),
        ):
            if len(names) > len(ports) and not (ports and ports[-1].many):
                counts = f"{len(names)} {what}s; it has {len(ports)} at most"
                self._fail(node, place, f"has {counts}", found)
            for number, (name, port) in enumerate(zip_longest(names, ports[: len(names)])):
                if not name and port is not None and not (port.optional or port.many):
                    self._fail(node, place, f"{what} {number} is left out", found)

    # --- types ------------------------------------------------------------------------------------

    def _typed(
        self, node: NodeRecord, found: OperatorSignature, given: Sequence[_Type], place: _Place
    ) -> list[_Type]:
        """Types of outputs as far as type variables tell them."""
        self._counts(node, found, place)
        bound: dict[str, tuple[str, int]] = {}
        for number, (port, type_) in enumerate(zip(_ports(found.inputs), given, strict=False)):
            if not type_:
                continue
            alike = type_ in _FLOATS and port.variable and port.types & _FLOATS
            if type_ not in port.types and not alike:
                taken = ", ".join(sorted(port.types))
                what = f"input {number} is {_named(type_)}; it takes {taken}"
                self._fail(node, place, what, found)
            if port.variable and (port.same or not port.many):
                other, first = bound.setdefault(port.variable, (type_, number))
                if other != type_:
                    what = f"inputs {first} and {number} are {_named(other)} and {_named(type_)}"
                    self._fail(node, place, f"{what}, they have to be of one type", found)
        made = []
        for port, _ in zip(_ports(found.outputs), node.outputs, strict=False):
            single = next(iter(port.types)) if len(port.types) == 1 else None
            varied = port.many and not port.same
            made.append(single if varied else bound.get(port.variable, (single, 0))[0])
        return made

    def _agree(
        self, name: str, declared: _Type, found: _Type, place: _Place, node: NodeRecord | None
    ) -> None:
        if declared and found and declared != found:
            where = place.path + (node.label if node is not None else "") or None
            raise ModelFormatError(
                f"the file says that {name!r} is {_named(declared)}, what makes it gives "
                f"{_named(found)}; export the model again",
                file=self._file,
                layer=where,
            )

    # --- subgraphs and functions ------------------------------------------------------------------

    def _subgraphs(
        self, node: NodeRecord, given: Sequence[_Type], types: _Types, place: _Place
    ) -> list[_Type]:
        """Types of the outputs of a node with subgraphs."""
        ends: list[_Type] = []
        domain, operator, _ = node.key
        for name, attribute in node.attributes.items():
            if not isinstance(attribute.value, GraphRecord) or place.depth >= _MAX_DEPTH:
                continue
            inner = _Place(
                f"{place.path}{node.label}/{name}/",
                place.imports,
                place.attributes,
                place.depth + 1,
            )
            taken: Sequence[_Type] = ()
            if (domain, operator) == ("", "Scan"):  # its first version has lengths in front
                taken = given if place.imports.get("", 1) > 8 else given[1:]
            elif (domain, operator) == ("", "Loop"):
                taken = (DType.INT64.value, DType.BOOL.value, *given[2:])
            made = self.graph(attribute.value, types, inner, taken)
            if operator in ("Loop", "Scan"):
                behind = 1 if operator == "Loop" else 0
                states = taken[2:] if operator == "Loop" else taken
                scanned = node.attributes.get("num_scan_inputs")
                if scanned is not None and isinstance(scanned.value, int):
                    states = taken[: len(taken) - scanned.value]
                for number, (one, two) in enumerate(zip(states, made[behind:], strict=False)):
                    if one and two and one != two:
                        what = f"value {number} that goes from round to round is {_named(one)}"
                        self._fail(node, place, f"{what} first, then {_named(two)}")
            if operator == "If" and ends:
                for number, (one, two) in enumerate(zip(ends, made, strict=False)):
                    if one and two and one != two:
                        what = f"output {number} is {_named(one)} in one branch, in the other"
                        self._fail(node, place, f"{what} {_named(two)}")
            if operator in ("If", "Loop", "Scan"):
                ends = made
        return ends[1:] if operator == "Loop" else ends

    def _call(
        self, node: NodeRecord, given: Sequence[_Type], types: _Types, place: _Place
    ) -> Sequence[_Type]:
        """Types of the outputs of a function for these types of its inputs."""
        function = self._functions[node.key]
        attributes = {**function.defaults, **node.attributes}
        resolved = {
            name: found
            for name, record in attributes.items()
            if (found := _resolved(record, place)) is not None
        }
        key = node.key, (tuple(given), frozenset((n, a.kind) for n, a in resolved.items()))
        if key in self._called:
            return self._called[key]
        if place.depth >= _MAX_DEPTH:
            return ()
        path = f"{place.path}{node.label}/"[-200:]
        inner = _Place(path, function.imports, resolved, place.depth + 1)
        known: _Types = dict(zip(function.inputs, given, strict=False))
        for called in function.nodes:
            made = self._node(called, known, inner)
            known.update(zip(called.outputs, made, strict=False))
        self._called[key] = tuple(known.get(name) for name in function.outputs)
        return self._called[key]

    def _fail(
        self, node: NodeRecord, place: _Place, what: str, found: OperatorSignature | None = None
    ) -> NoReturn:
        version = f" {found.version}" if found is not None else ""
        raise ModelFormatError(
            f"{node.type}{version}: {what}; export the model again",
            file=self._file,
            layer=place.path + node.label,
        )


def _signature(node: NodeRecord, imports: Mapping[str, int]) -> OperatorSignature | None:
    domain, name, _ = node.key
    full = f"{domain}::{name}" if domain else name
    if custom_layer("onnx", full) is not None:
        return None
    return signature(full, imports.get(domain, 1))


def _ports(ports: Sequence[SignaturePort]) -> Iterator[SignaturePort]:
    """The ports, the last one again and again where it stands for many."""
    yield from ports
    while ports and ports[-1].many:
        yield ports[-1]


def _resolved(record: AttributeRecord, place: _Place) -> AttributeRecord | None:
    return place.attributes.get(record.reference) if record.reference else record


def _kind(record: AttributeRecord) -> str:
    """The kind of an attribute; "" where more than that counts."""
    return "" if record.reference or record.kind in ("graph", "graphs") else record.kind


def _declared(type_: TypeRecord) -> _Type:
    if type_.optional:
        return OPTIONAL
    if type_.kind == "sequence":
        return LIST
    return None if type_.dtype is None else _NAMES[type_.dtype]


def _stated(node: NodeRecord, place: _Place) -> list[_Type]:
    """The type of what a node makes where an attribute states it."""
    domain, name, _ = node.key
    if domain or name not in ("Cast", "Constant", "ConstantOfShape"):
        return []
    for key, record in node.attributes.items():
        found = _resolved(record, place)
        value = None if found is None else found.value
        if isinstance(value, TensorProtoRecord):
            return [value.dtype.value]
        if key == "to" and value in ELEMENT_TYPES:
            return [ELEMENT_TYPES[value].dtype.value]
        if key in _CONSTANTS:
            return [_CONSTANTS[key].value]
    return [DType.FLOAT32.value] if name == "ConstantOfShape" else []


def _named(type_: str) -> str:
    return {LIST: "a sequence", OPTIONAL: "an optional"}.get(type_, type_)
