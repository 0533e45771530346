"""vknn's own graphs with their inputs: a folder of graph.json and arrays.npz, without pickles.

What ``vknn reduce`` writes: the operators of a network that are left, each input's array, and
nothing of the format that they came from.
"""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model

__all__ = ["FORMAT"]

_START = b'{"vknn graph":'


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.graph_folder.reader import load

    return load(path, weights)


def _recognizes(head: bytes) -> bool:
    return head.startswith(_START)


FORMAT = Format("vknn graph", ("graph.json",), _recognizes, _load)
