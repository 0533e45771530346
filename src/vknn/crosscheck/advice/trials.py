"""Trials: a network with some layers in float32, held against the reference for all inputs."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vknn.crosscheck.advice.simulation import Simulation
from vknn.crosscheck.outputs import output_errors
from vknn.engine import Engine
from vknn.errors import OutOfMemoryError
from vknn.graph import Graph, Node
from vknn.graph.layers import apart
from vknn.lowering.kit.layer_precisions import REST, LayerPrecisions
from vknn.opening import new_target
from vknn.session import Session, engine_of

#: Runs of each plan that are timed, and seconds that all of them may take.
RUNS, SECONDS = 9, 20.0


@dataclass(frozen=True, eq=False)
class AdvisedInput:
    """One set of inputs: its name, the arrays, and the reference's results as users see them."""

    name: str
    feeds: Mapping[str, np.ndarray]
    expected: Mapping[str, Any]


def rules(precision: str, layers: Iterable[str]) -> dict[str, str]:
    """The mapping that keeps these layers in float32 and all others in a precision."""
    return {REST: precision, **dict.fromkeys(layers, "fp32")}


class ListTrials:
    """Errors of the outputs by the layers that are kept; each list is tried once.

    ``share``: error allowed, relative to an output's largest element. Errors are in the same terms.
    ``names``: of all layers of the file.
    """

    def __init__(
        self,
        session: Session,
        graph: Graph,
        names: set[str],
        cases: Sequence[AdvisedInput],
        precision: str,
        share: float,
    ) -> None:
        self.session, self.cases, self.share = session, cases, share
        self._graph, self._names, self._precision = graph, names, precision
        self._known: dict[frozenset[str], list[float]] = {}
        self.simulated = session.device is None

    @property
    def count(self) -> int:
        """Number of lists that were tried."""
        return len(self._known)

    def errors(self, kept: Iterable[str]) -> list[float]:
        """The largest error of any output, for each case."""
        key = frozenset(kept)
        if key not in self._known:
            tried = self._simulated if self.simulated else self._on_device
            self._known[key] = tried(key)
        return self._known[key]

    def passes(self, kept: Iterable[str]) -> bool:
        """Whether all outputs of all cases are within the tolerance."""
        return all(error <= self.share for error in self.errors(kept))

    def error_of(self, case: AdvisedInput, outputs: Mapping[str, Any]) -> float:
        """The largest error of the outputs of a case; infinite where none can be compared."""
        found = output_errors(self.session, outputs, case.expected, self.share)
        return max((excess * self.share for _, excess in found), default=float("inf"))

    def times(self, kept: Sequence[str], seconds: float) -> dict[str, tuple[float, float]]:
        """Seconds of a run without the list, with it, and in fp32: least and median, in turn.

        ``seconds``: all that may be spent; one run of each is timed at least.
        """
        settings = {
            self._precision: rules(self._precision, ()),
            **({"list": rules(self._precision, kept)} if kept else {}),
            "fp32": rules("fp32", ()),
        }
        if self.simulated:
            return {}
        with contextlib.suppress(OutOfMemoryError):  # three networks at once
            return self._timed(settings, min(seconds, SECONDS))
        return {}

    def _timed(
        self, settings: Mapping[str, Mapping[str, str]], seconds: float
    ) -> dict[str, tuple[float, float]]:
        feeds = self.cases[0].feeds
        with contextlib.ExitStack() as stack:
            engines = {
                name: stack.enter_context(self._engine(each)) for name, each in settings.items()
            }
            taken: dict[str, list[float]] = {name: [] for name in engines}
            end = time.perf_counter() + seconds
            for number in range(RUNS + 1):
                for name, engine in engines.items():
                    begin = time.perf_counter()
                    engine.run(feeds)
                    if number:  # the first compiles
                        taken[name].append(time.perf_counter() - begin)
                if number and time.perf_counter() > end:
                    break
        return {name: (min(t), statistics.median(t)) for name, t in taken.items()}

    def _engine(self, layers: Mapping[str, str]) -> contextlib.closing[Engine]:
        own = engine_of(self.session)
        narrow = next((p for p in layers.values() if p != "fp32"), "fp32")
        arithmetic = self.session.arithmetic if narrow == "fp16" else "fp32"
        options = replace(
            own.target.options,
            precision=narrow,
            arithmetic=arithmetic,
            layers=LayerPrecisions(layers),
        )
        target = new_target(self.session.device, options, own.target.memory_limit)
        engine = Engine(own.model, target, own.timeout)
        engine.reset_state()
        return contextlib.closing(engine)

    def _on_device(self, kept: frozenset[str]) -> list[float]:
        model = self.session.model
        with self._engine(rules(self._precision, sorted(kept))) as engine:
            errors = []
            for case in self.cases:
                engine.reset_state()
                errors.append(self.error_of(case, model.results(engine.run(case.feeds))))
            return errors

    def _simulated(self, kept: frozenset[str]) -> list[float]:
        engine, wide = engine_of(self.session), set(apart(kept, self._names))

        def narrow(node: Node) -> bool:
            return wide.isdisjoint(apart([node.origin.name], self._names))

        errors = []
        for case in self.cases:
            arrays = engine.encode(case.feeds)
            feeds = {v.name: arrays[v.name] for v in self._graph.inputs}
            outputs = Simulation(self._graph, feeds, self._precision).outputs(narrow)
            errors.append(self.error_of(case, shown(self.session, outputs)))
        return errors


def shown(session: Session, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Outputs of a graph as the session's user sees them."""
    own = {name: array for name, array in outputs.items() if name not in session.model.state}
    return session.model.results(engine_of(session).decoded(own))
