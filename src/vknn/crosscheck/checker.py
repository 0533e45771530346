"""Checker of a session: one set of inputs after the other, with what is compiled kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType

import numpy as np

from vknn.answers import Recipe
from vknn.crosscheck.agreement import agreement_of
from vknn.crosscheck.check import CheckOptions, GraphCheck
from vknn.crosscheck.programs import KeptPrograms
from vknn.crosscheck.report import VerifyReport
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

    def check(self, feeds: Mapping[str, np.ndarray]) -> VerifyReport:
        """The report for arrays by name, of all inputs. Raises VknnError."""
        engine = engine_of(self.session)
        if self._programs.keep:
            self.session.reset_state()
        graph = engine.program(feeds).graph if self.options.passes else engine.graph(feeds)
        check = GraphCheck(self.session, graph, feeds, self.options, self._programs)
        report = check.report(graph.name if self._name is None else self._name)
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
