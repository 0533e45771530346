"""Mutators of OpenVINO IR: attributes, dims, layers and edges of the XML, and weights."""

from __future__ import annotations

import copy
import functools
import random
import re
from collections.abc import Callable, Mapping
from xml.etree import ElementTree as Tree

from defusedxml.ElementTree import fromstring

from fuzzing.values import integer, real, spoiled_weights

Files = Mapping[str, bytes]
Donor = Callable[[], Tree.Element]
_INTEGER = re.compile(r"[+-]?\d+\Z")


def mutated(
    rng: random.Random, files: Files, other: Callable[[], Files], count: int
) -> tuple[Files, list[str]]:
    """Both files with ``count`` changes, and what was done."""
    root = fromstring(files[".xml"])
    donor = functools.cache(lambda: fromstring(other()[".xml"]))
    weights = files.get(".bin", b"")
    done = []
    for _ in range(count):
        if weights and rng.random() < 0.15:
            weights = spoiled_weights(rng, weights)
            done.append("weights")
        else:
            done.append(_mutate(rng, root, donor))
    return {".xml": Tree.tostring(root), ".bin": weights}, done


def _mutate(rng: random.Random, root: Tree.Element, other: Donor) -> str:
    way = rng.random()
    if way < 0.25:
        return _dim(rng, root)
    if way < 0.4:
        return _children(rng, root)
    if way < 0.48:
        return _spliced(rng, root, other)
    elements = [e for e in root.iter() if e.attrib]
    data = [e for e in elements if e.tag not in ("port", "edge")]
    if not elements:
        return "nothing"
    element = rng.choice(data if data and rng.random() < 0.8 else elements)
    name = rng.choice(list(element.attrib))
    if rng.random() < 0.1:
        del element.attrib[name]
        return f"delete {element.tag}.{name}"
    if rng.random() < 0.25:
        others = [e.attrib[name] for e in [*other().iter(), *elements] if name in e.attrib]
        element.set(name, rng.choice(others))
    else:
        element.set(name, _text(rng, element.attrib[name]))
    return f"set {element.tag}.{name}"


def _dim(rng: random.Random, root: Tree.Element) -> str:
    dims = [e for e in root.iter() if e.tag == "dim"]
    ports = [e for e in root.iter() if e.tag == "port"]
    if not ports:
        return "nothing"
    if dims and rng.random() < 0.6:
        dim = rng.choice(dims)
        old = dim.text or ""
        if rng.random() < 0.5:  # in all places, so that what follows may fit
            new = str(rng.randrange(0, 12))
            for each in dims:
                if each.text == old:
                    each.text = new
        else:
            dim.text = _text(rng, old)
        return "dim"
    port = rng.choice(ports)
    if len(port) and rng.random() < 0.5:
        port.remove(rng.choice(list(port)))
    else:
        Tree.SubElement(port, "dim").text = str(integer(rng, 1))
    return "rank"


def _children(rng: random.Random, root: Tree.Element) -> str:
    """Layers, edges or ports deleted, doubled or swapped."""
    if not (parents := [e for e in root.iter() if len(e)]):
        return "nothing"
    parent = rng.choice(parents)
    place, second = rng.randrange(len(parent)), rng.randrange(len(parent))
    child = parent[place]
    way = rng.randrange(3)
    if way == 0:
        parent.remove(child)
    elif way == 1:
        parent.insert(second, copy.deepcopy(child))
    else:
        parent[place], parent[second] = copy.deepcopy(parent[second]), copy.deepcopy(child)
    return f"{('delete', 'double', 'swap')[way]} {child.tag}"


def _spliced(rng: random.Random, root: Tree.Element, other: Donor) -> str:
    """A layer with the type and attributes of one of the other file, or of its own."""
    layers = [e for e in root.iter() if e.tag == "layer"]
    donors = [e for e in [*other().iter(), *layers] if e.tag == "layer"]
    if not layers:
        return "nothing"
    target, donor = rng.choice(layers), rng.choice(donors)
    if rng.random() < 0.5:
        target.set("type", donor.get("type", ""))
    for child in [c for c in target if c.tag == "data"]:
        target.remove(child)
    target.extend(copy.deepcopy(c) for c in donor if c.tag == "data")
    return "splice layer"


def _text(rng: random.Random, old: str) -> str:
    if "," in old and rng.random() < 0.8:
        parts = old.split(",")
        place = rng.randrange(len(parts))
        way = rng.random()
        if way < 0.15:
            del parts[place]
        elif way < 0.3:
            parts.insert(place, str(integer(rng)))
        else:
            parts[place] = _text(rng, parts[place])
        return ",".join(parts)
    if _INTEGER.match(old):
        return str(integer(rng, int(old), wide=rng.random() < 0.3))
    try:
        return str(real(rng, float(old)))
    except (ValueError, OverflowError):
        return rng.choice(("", "0", "1", "-1", "true", "false", "x" * 300, old + "1", old[:-1]))
