"""Mutators of ncnn files: layers and their parameters, and weights, fitting or not."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import struct
from collections.abc import Callable, Mapping

import numpy as np

from fuzzing.values import FLOATS, integer, real, spoiled_weights
from vknn.errors import VknnError
from vknn.formats.ncnn.random_weights import random_weights
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.records import MAX_PARAM_ID, LayerRecord, NetRecord, ParamValue
from vknn.formats.ncnn.writer import format_bin, format_param, format_param_bin, weight_specs

Files = Mapping[str, bytes]
Donors = Callable[[], list[LayerRecord]]
MOST_WEIGHTS = 1 << 18
_STRINGS = ("", "0w,0h", "0w*2,0h,-1", "ij,jk->ik", "x" * 300, "0c/0", "+(0w,1e9)")


def mutated(
    rng: random.Random, files: Files, other: Callable[[], Files], count: int
) -> tuple[Files, list[str]]:
    """Both files with ``count`` changes, and what was done."""
    layers = list(parse_param(files[".param"]).layers)
    donors = functools.cache(lambda: list(parse_param(other()[".param"]).layers))
    weights = files.get(".bin", b"")
    done = []
    for _ in range(count):
        if weights and rng.random() < 0.12:
            weights = spoiled_weights(rng, weights)
            done.append("weights")
        else:
            done.append(_mutate(rng, layers, donors))
    net = NetRecord(tuple(layers))
    if rng.random() < 0.75:
        weights = fitting_weights(net, rng)
        weights = spoiled_weights(rng, weights) if rng.random() < 0.25 else weights
    return {**_written(rng, net), ".bin": weights}, done


def fitting_weights(net: NetRecord, rng: random.Random) -> bytes:
    """Random weights as the layers want them; none where they want too many."""
    try:
        size = sum(math.prod(spec.shape) for _, spec in weight_specs(net))
        if not 0 <= size <= MOST_WEIGHTS:
            return b""
        return format_bin(net, random_weights(net, rng.randrange(1 << 30)))
    except (VknnError, ValueError, struct.error):  # the latter of numbers that no file can hold
        return b""


def _written(rng: random.Random, net: NetRecord) -> Files:
    """The network as text, or now and then as .param.bin."""
    if rng.random() < 0.05:
        try:
            return {".param.bin": format_param_bin(net)}
        except Exception:  # not every net can be one
            pass
    text = format_param(net)
    if rng.random() < 0.03:
        text = text.replace("=1", rng.choice(("=nan", "=1e39", "=--1", "=1,", '="')), 1)
    return {".param": text.encode("utf-8", "replace")}


def _mutate(rng: random.Random, layers: list[LayerRecord], other: Donors) -> str:
    place = rng.randrange(len(layers))
    layer, way = layers[place], rng.random()
    if way < 0.7:
        layers[place], what = _with_parameter(rng, layer, other)
        return what
    if way < 0.76 and len(layers) > 1:
        del layers[place]
        return f"delete {layer.type}"
    if way < 0.82:
        layers.insert(place + 1, _behind(layer, rng.choice([layer, *other()])))
        return f"insert behind {layer.type}"
    if way < 0.86:
        second = rng.randrange(len(layers))
        layers[place], layers[second] = layers[second], layer
        return f"swap {layer.type}"
    if way < 0.92:
        donor = rng.choice(other())
        layers[place] = dataclasses.replace(layer, type=donor.type)
        return f"type {layer.type} {donor.type}"
    blobs = [t for each in layers for t in each.tops] or ["x"]
    if rng.random() < 0.6 and layer.bottoms:
        bottoms = list(layer.bottoms)
        bottoms[rng.randrange(len(bottoms))] = rng.choice(blobs)
        if rng.random() < 0.3:
            bottoms.append(rng.choice(blobs))
        layers[place] = dataclasses.replace(layer, bottoms=tuple(bottoms))
        return f"inputs of {layer.type}"
    tops = layer.tops[:-1] if rng.random() < 0.5 else (*layer.tops, f"t{rng.randrange(99)}")
    layers[place] = dataclasses.replace(layer, tops=tops)
    return f"outputs of {layer.type}"


def _behind(layer: LayerRecord, donor: LayerRecord) -> LayerRecord:
    """A layer with the donor's type and parameters that reads this layer's results."""
    tops = tuple(f"{t}_{donor.name}"[:60] for t in donor.tops) or ("more",)
    bottoms = (layer.tops or ("x",)) * max(1, len(donor.bottoms))
    bottoms = bottoms[: max(1, len(donor.bottoms))]
    return dataclasses.replace(donor, name=f"{donor.name}_2", bottoms=bottoms, tops=tops)


def _with_parameter(
    rng: random.Random, layer: LayerRecord, other: Donors
) -> tuple[LayerRecord, str]:
    params = dict(layer.params)
    if rng.random() < 0.1 and (donors := [d for d in other() if d.type == layer.type]):
        return dataclasses.replace(layer, params=rng.choice(donors).params), f"splice {layer.type}"
    known = params and rng.random() < 0.7
    key = rng.choice(list(params)) if known else rng.randrange(24)
    if rng.random() < 0.02:
        key = MAX_PARAM_ID
    if rng.random() < 0.08:
        params.pop(key, None)
    else:
        params[key] = _value(rng, params.get(key, 0))
    return dataclasses.replace(layer, params=params), f"{layer.type} {key}"


def _value(rng: random.Random, old: ParamValue) -> ParamValue:
    way = rng.random()
    if isinstance(old, tuple) and old and way < 0.8:
        numbers = list(old)
        place = rng.randrange(len(numbers))
        if way < 0.15:
            del numbers[place]
        elif way < 0.3:
            numbers.insert(place, integer(rng))
        else:
            numbers[place] = _number(rng, numbers[place])
        return tuple(numbers)
    if way < 0.9:
        return _number(rng, old if isinstance(old, int | float) else 0)
    if way < 0.95:
        return tuple(integer(rng) for _ in range(rng.randrange(5)))
    return rng.choice(_STRINGS)


def _number(rng: random.Random, old: float) -> int | float:
    if isinstance(old, float) or rng.random() < 0.1:
        value = real(rng, old) if rng.random() < 0.8 else rng.choice(FLOATS)
        return float(np.float32(value)) if abs(value) < 3e38 else 3e38  # text has finite ones only
    return integer(rng, old)
