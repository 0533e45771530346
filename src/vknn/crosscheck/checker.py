"""Checker of a session: one set of inputs after the other, with what is compiled kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from vknn.answers import Recipe
from vknn.crosscheck.agreement import agreement_of
from vknn.crosscheck.check import CheckOptions, GraphCheck
from vknn.crosscheck.programs import KeptPrograms
from vknn.crosscheck.report import VerifyReport
from vknn.graph.layers import layers_of
from vknn.session import Session, engine_of


class InputChecker:
    """Checker of a session with these options.

    ``name``: the model's in reports, None: its graph's. ``recipe``: for the agreement of answers.
    ``keep``: whether programs are kept from one check to the next; then it is to be closed.
    """

    def __init__(
        self,
        session: Session,
        options: CheckOptions,
        name: str | None = None,
        recipe: Recipe | str | os.PathLike[str] | None = None,
        keep: bool = False,
    ) -> None:
        self.session, self.options = session, options
        self._name, self._recipe = name, recipe
        self._programs = KeptPrograms(engine_of(session).target, keep)
        self._layers: list[dict[str, Any]] = []

    def check(self, feeds: Mapping[str, np.ndarray]) -> VerifyReport:
        """The report for arrays by name, of all inputs. Raises VknnError.

        Its layers are those of the first inputs that were checked.
        """
        engine = engine_of(self.session)
        if self._programs.keep:
            self.session.reset_state()
        graph = engine.program(feeds).graph if self.options.passes else engine.graph(feeds)
        # Before the check, which runs the model: what it computes may depend on its state.
        if not self._layers:
            self._layers = layers_of(engine.graph(feeds), [graph] if self.options.passes else [])
        check = GraphCheck(self.session, graph, feeds, self.options, self._programs)
        report = check.report(graph.name if self._name is None else self._name)
        report = replace(report, layers=self._layers)
        if self.options.metrics is None:
            return report
        found = agreement_of(self.session, self._recipe, check.actual, check.expected)
        return replace(report, agreement=found)

    @property
    def model_name(self) -> str:
        """Name of the model in reports."""
        if self._name is not None:
            return self._name
        return str(getattr(self.session.model, "file", None) or "model")

    def close(self) -> None:
        """Release of the programs; may be called twice."""
        self._programs.close()

    def __enter__(self) -> InputChecker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
