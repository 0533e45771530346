"""Reader of <TensorIterator>: port map, back edges and body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from vknn.formats.openvino.elements import ElementReader
from vknn.formats.openvino.records import Iteration, LayerRecord, Net, PortMapping, PortRef
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
    mappings: dict[str, list[PortMapping]] = {"input": [], "output": []}
    listed = element.first("port_map")
    for child in listed.children if listed is not None else ():
        if child.tag in mappings:
            mappings[child.tag].append(_port_mapping(reader, child, layer))
    edges: list[tuple[PortRef, PortRef]] = []
    back = element.first("back_edges")
    for edge in back.all("edge") if back is not None else ():
        n = [reader.number(edge, name, layer) for name in _EDGE]
        edges.append(((n[0], n[1]), (n[2], n[3])))
    found = Iteration(tuple(mappings["input"]), tuple(mappings["output"]), tuple(edges), net)
    _check(reader, element, found, layer)
    return found


_EDGE = ("from-layer", "from-port", "to-layer", "to-port")


def _port_mapping(reader: ElementReader, element: Element, layer: str) -> PortMapping:
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


def body_inputs(net: Net) -> dict[PortRef, tuple[int, ...]]:
    """The inputs of a body and their shapes: input ports without an edge, and its Input layers.

    An Input layer is named by its output port.
    """
    found: dict[PortRef, tuple[int, ...]] = {}
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
    fed: set[PortRef] = set()
    for mapping in found.inputs:
        if mapping.external not in ends["input"]:
            reader.fail(
                f"the port map names input port {mapping.external}, which does not exist", layer
            )
        ref = resolve_port(found.body, mapping.inner, takes)
        if ref not in takes:
            reader.fail(
                f"the port map feeds {_said(mapping.inner)} of the body, which is no input", layer
            )
        if ref in fed:
            reader.fail(f"the port map feeds {_said(mapping.inner)} of the body twice", layer)
        fed.add(ref)
    made: set[int] = set()
    for mapping in found.outputs:
        if mapping.external not in ends["output"]:
            reader.fail(
                f"the port map names output port {mapping.external}, which does not exist", layer
            )
        if mapping.external in made:
            reader.fail(f"the port map gives output port {mapping.external} twice", layer)
        if resolve_port(found.body, mapping.inner, gives) not in gives:
            reader.fail(
                f"the port map takes {_said(mapping.inner)} of the body, which is no output", layer
            )
        made.add(mapping.external)
    if missing := ends["output"] - made:
        reader.fail(f"the port map gives nothing for output port {min(missing)}", layer)
    _check_back_edges(reader, found, takes, gives, fed, layer)


def _port_ids(ports: Iterable[Element]) -> set[int]:
    found = (integer(port.attributes.get("id", "")) for port in ports)
    return {id_ for id_ in found if id_ is not None}


def _check_back_edges(
    reader: ElementReader,
    found: Iteration,
    takes: Mapping[PortRef, tuple[int, ...]],
    gives: set[PortRef],
    fed: set[PortRef],
    layer: str,
) -> None:
    carried: set[PortRef] = set()
    for source, target in found.back_edges:
        if resolve_port(found.body, source, gives) not in gives:
            reader.fail(
                f"a back edge leaves {_said(source)} of the body, which is no output", layer
            )
        ref = resolve_port(found.body, target, takes)
        if ref not in takes:
            reader.fail(
                f"a back edge leads to {_said(target)} of the body, which is no input", layer
            )
        if ref in carried:
            reader.fail(f"two back edges lead to {_said(target)} of the body", layer)
        carried.add(ref)
        mapping = next(
            (r for r in found.inputs if resolve_port(found.body, r.inner, takes) == ref), None
        )
        if mapping is None:
            reader.fail(f"{_said(target)} of the body has a back edge and no first value", layer)
        if mapping.axis is not None:
            reader.fail(f"{_said(target)} of the body has a back edge and takes slices", layer)
    if missing := set(takes) - fed:
        reader.fail(f"nothing feeds {_said(min(missing))} of the body", layer)


def resolve_port(
    body: Net, ref: PortRef, known: set[PortRef] | Mapping[PortRef, tuple[int, ...]]
) -> PortRef:
    """The port among ``known`` that a port mapping or back edge names.

    A port id that is left out, and any port id of an Input layer, stands for the layer's only port.
    """
    if ref in known:
        return ref
    layer: LayerRecord | None = body.by_id().get(ref[0])
    if layer is None or (ref[1] != -1 and layer.type.lower() not in ("input", "parameter")):
        return ref
    own = [p for p in known if p[0] == ref[0]]
    return own[0] if len(own) == 1 else ref


def _said(ref: PortRef) -> str:
    return f"layer {ref[0]}, port {ref[1]}"
