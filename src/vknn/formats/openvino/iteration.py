"""Reader of <TensorIterator>: port map, back edges and body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from vknn.formats.openvino.elements import ElementReader
from vknn.formats.openvino.records import Iteration, LayerRecord, Net, Place, PortMapping
from vknn.formats.openvino.xml import Element, integer

ReadNet = Callable[[ElementReader, Element, int], Net]


def read_iteration(
    reader: ElementReader,
    element: Element,
    precision: str,
    version: int,
    layer: str,
    read_net: ReadNet,
) -> Iteration:
    """The port map, back edges and body of a TensorIterator. ``read_net`` reads the body."""
    body = element.first("body")
    if body is None:
        reader.fail("has no <body>", layer)
    net = read_net(reader.inner(precision), body, version)
    rules: dict[str, list[PortMapping]] = {"input": [], "output": []}
    listed = element.first("port_map")
    for child in listed.children if listed is not None else ():
        if child.tag in rules:
            rules[child.tag].append(_rule(reader, child, layer))
    edges: list[tuple[Place, Place]] = []
    back = element.first("back_edges")
    for edge in back.all("edge") if back is not None else ():
        n = [reader.number(edge, name, layer) for name in _EDGE]
        edges.append(((n[0], n[1]), (n[2], n[3])))
    found = Iteration(tuple(rules["input"]), tuple(rules["output"]), tuple(edges), net)
    _check(reader, element, found, layer)
    return found


_EDGE = ("from-layer", "from-port", "to-layer", "to-port")


def _rule(reader: ElementReader, element: Element, layer: str) -> PortMapping:
    def optional(name: str) -> int | None:
        text = element.attributes.get(name)
        value = None if text is None else integer(text)
        if text is not None and value is None:
            reader.fail(f"<{element.tag}> has {text[:40]!r} as {name}", layer)
        return value

    external = reader.number(element, "external_port_id", layer)
    id_ = reader.number(element, "internal_layer_id", layer)
    port = optional("internal_port_id")
    axis, stride = optional("axis"), optional("stride")
    return PortMapping(
        external,
        (id_, -1 if port is None else port),
        None if axis is None or axis == -1 else axis,
        optional("start"),
        optional("end"),
        1 if stride is None else stride,
        optional("part_size"),
    )


def body_inputs(net: Net) -> dict[Place, tuple[int, ...]]:
    """The inputs of a body and their shapes: input ports without an edge, and its Input layers.

    An Input layer is named by its output port.
    """
    found: dict[Place, tuple[int, ...]] = {}
    for layer in net.layers:
        if layer.type.lower() in ("input", "parameter") and not layer.inputs:
            found |= {(layer.id, p.id): p.dims for p in layer.outputs[:1]}
        for p in layer.inputs:
            if (layer.id, p.id) not in net.sources:
                found[layer.id, p.id] = p.dims
    return found


def _check(reader: ElementReader, element: Element, found: Iteration, layer: str) -> None:
    """Checks that the ends of all mappings and back edges exist; each input is fed once."""
    ends = {tag: _port_ids(element.ports(tag)) for tag in ("input", "output")}
    takes = body_inputs(found.body)
    gives = {(body.id, p.id) for body in found.body.layers for p in body.outputs}
    fed: set[Place] = set()
    for rule in found.inputs:
        if rule.external not in ends["input"]:
            reader.fail(
                f"the port map names input port {rule.external}, which does not exist", layer
            )
        place = resolve_place(found.body, rule.inner, takes)
        if place not in takes:
            reader.fail(
                f"the port map feeds {_said(rule.inner)} of the body, which is no input", layer
            )
        if place in fed:
            reader.fail(f"the port map feeds {_said(rule.inner)} of the body twice", layer)
        fed.add(place)
    made: set[int] = set()
    for rule in found.outputs:
        if rule.external not in ends["output"]:
            reader.fail(
                f"the port map names output port {rule.external}, which does not exist", layer
            )
        if rule.external in made:
            reader.fail(f"the port map gives output port {rule.external} twice", layer)
        if resolve_place(found.body, rule.inner, gives) not in gives:
            reader.fail(
                f"the port map takes {_said(rule.inner)} of the body, which is no output", layer
            )
        made.add(rule.external)
    if missing := ends["output"] - made:
        reader.fail(f"the port map gives nothing for output port {min(missing)}", layer)
    _check_back_edges(reader, found, takes, gives, fed, layer)


def _port_ids(ports: Iterable[Element]) -> set[int]:
    found = (integer(port.attributes.get("id", "")) for port in ports)
    return {id_ for id_ in found if id_ is not None}


def _check_back_edges(
    reader: ElementReader,
    found: Iteration,
    takes: Mapping[Place, tuple[int, ...]],
    gives: set[Place],
    fed: set[Place],
    layer: str,
) -> None:
    carried: set[Place] = set()
    for source, target in found.back_edges:
        if resolve_place(found.body, source, gives) not in gives:
            reader.fail(
                f"a back edge leaves {_said(source)} of the body, which is no output", layer
            )
        place = resolve_place(found.body, target, takes)
        if place not in takes:
            reader.fail(
                f"a back edge leads to {_said(target)} of the body, which is no input", layer
            )
        if place in carried:
            reader.fail(f"two back edges lead to {_said(target)} of the body", layer)
        carried.add(place)
        rule = next(
            (r for r in found.inputs if resolve_place(found.body, r.inner, takes) == place), None
        )
        if rule is None:
            reader.fail(f"{_said(target)} of the body has a back edge and no first value", layer)
        if rule.axis is not None:
            reader.fail(f"{_said(target)} of the body has a back edge and takes slices", layer)
    if missing := set(takes) - fed:
        reader.fail(f"nothing feeds {_said(min(missing))} of the body", layer)


def resolve_place(
    body: Net, place: Place, known: set[Place] | Mapping[Place, tuple[int, ...]]
) -> Place:
    """A place of a rule; a port that is left out, or an Input's own, is the layer's only one."""
    if place in known:
        return place
    layer: LayerRecord | None = body.by_id().get(place[0])
    if layer is None or (place[1] != -1 and layer.type.lower() not in ("input", "parameter")):
        return place
    own = [p for p in known if p[0] == place[0]]
    return own[0] if len(own) == 1 else place


def _said(place: Place) -> str:
    return f"layer {place[0]}, port {place[1]}"
