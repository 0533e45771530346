"""Precisions of single layers: which of them keep float32 in a plan of 16 bits."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping

from vknn.graph.layers import apart

#: The name that stands for all layers that nothing else names.
REST = "*"


class LayerPrecisions:
    """Precisions by the names of layers, as a model's file has them, or by shell patterns of these.

    Of a layer its own name counts first, then the first pattern that fits, and "*" for all others.
    Layers that passes join have names joined by "+", and keep float32 where one of them does; such
    a name may stand for all of its layers. Graphs tell the names that there are (:meth:`learn`).
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        self.rules = dict(rules)
        #: That of layers that nothing names.
        self.rest = self.rules.get(REST, "fp16")
        self._known: set[str] = set()
        self._own: dict[str, str] = {}
        self._found: dict[str, bool] = {}

    def learn(self, names: Iterable[str]) -> None:
        """Names of layers that there are."""
        new = self._known.union(names)
        if len(new) > len(self._known):
            self._known, self._found = new, {}
            self._own = {
                part: precision for name, precision in self.rules.items()
                for part in apart([name], new)
            } | {name: p for name, p in self.rules.items() if name in new}  # fmt: skip

    def keeps_single(self, layer: str) -> bool:
        """True for a layer, or layers that were joined, that keep float32."""
        found = self._found.get(layer)
        if found is None:
            parts = apart([layer], self._known)
            found = self._found[layer] = any(self._precision(part) == "fp32" for part in parts)
        return found

    def unknown(self) -> dict[str, list[str]]:
        """Names and patterns that no layer has, each with those that are most like it."""
        found = {}
        for name in self.rules:
            parts = apart([name], self._known)
            known = name == REST or all(part in self._known for part in parts)
            if not known and not fnmatch.filter(self._known, name):
                found[name] = difflib.get_close_matches(name, self._known, 3, 0.4)
        return found

    def _precision(self, name: str) -> str:
        own = self._own.get(name) or self.rules.get(name)
        if own is not None:
            return own
        fits = (p for pattern, p in self.rules.items() if pattern != REST
                and fnmatch.fnmatchcase(name, pattern))  # fmt: skip
        return next(fits, self.rest)
