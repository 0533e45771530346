"""Records of networks: the blobs that are read from a layer on, and what large ones cost."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from typing import Any

import numpy as np
from tests.coreml_writer import layer, model, network, session

from vknn.formats.coreml.reader import read_network
from vknn.formats.coreml.records import blobs_read

#: Layers of a network for which a set of blobs for each layer would take a gigabyte.
MANY = 6000


def adding(source: str, target: str) -> Any:
    return layer("add", [source], [target], name=target, alpha=1.0)


def chain(count: int) -> list[Any]:
    """x + ``count``, a layer for each 1."""
    names = ["x", *(f"b{i}" for i in range(count))]
    return [adding(*pair) for pair in itertools.pairwise(names)]


def test_the_blobs_that_are_read_from_a_layer_on() -> None:
    inner = network([adding("b2", "t"), layer("copy", ["t"], ["b2"], name="back")])
    branch = layer("branch", ["x"], [], name="branch", ifBranch=inner)
    last = layer("add", ["b2", "b0"], ["y"], name="last")
    record = read_network(model([*chain(70), branch, last], {"x": (1,)}).neuralNetwork, None)
    # More positions than are kept, twice.
    for position in [*range(len(record.layers) + 1)] * 2:
        behind = [blobs_read(found) for found in record.layers[position:]]
        assert record.read_from(position) == frozenset().union(*behind), position
    assert record.read_from(70) == {"x", "b2", "t", "b0"}


def test_a_network_of_many_layers() -> None:
    """Time and memory grow as the file does, also where data decide how it goes on."""
    made = f"b{MANY - 1}"
    again = network([adding("y", "t"), layer("copy", ["t"], ["y"], name="back")])
    tail = [
        layer("copy", [made], ["y"], name="copy"),
        layer("branch", ["x"], [], name="branch", ifBranch=again),
    ]
    message = model([*chain(MANY), *tail], {"x": (1,)})
    tracemalloc.start()
    started = time.process_time()
    try:
        with session(message) as s:
            assert s.run({"x": np.ones(1)})["y"].tolist() == [MANY + 2]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6
    assert time.process_time() - started < 60
