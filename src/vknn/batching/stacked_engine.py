"""Engine of a stacked model, beside that of the model of one example."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from vknn import forks
from vknn.batching.stacked_model import StackedModel
from vknn.engine import Engine
from vknn.runtime import close_all


class StackedEngine(Engine):
    """Engine of ``count`` examples of an engine's model: it has programs of its own.

    All else is that engine's: its target, lock and limits, so that runs of both follow each other
    and are cancelled together, and its end. Raises NotIndependentError.
    """

    def __init__(self, engine: Engine, count: int) -> None:
        vars(self).update(vars(engine))
        self._one = engine
        self._signatures, self._programs = {}, OrderedDict()
        # What ran last is the other's, for those who ask where the model's nodes are.
        self._shared = replace(engine._shared, latest={}, ran=None)
        self._enter(StackedModel(engine.model, count), None)

    @property
    def closed(self) -> bool:
        """Whether the other engine was closed."""
        return self._one.closed

    def forget(self) -> None:
        """Closing of all its programs: the next run builds its own."""
        with self.lock, forks.busy():
            self._shared.latest.clear()
            self._encoder.forget()
            close_all(self._programs.values())
            self._programs.clear()

    def forget_idle(self) -> None:
        """Closing of the programs that no stream has."""
        with self.lock, forks.busy():
            if len(self._streamed) == 0:
                self.forget()

    def close(self) -> None:
        """Closing of all its programs; it can run as long as the other engine is open."""
        self.forget()
