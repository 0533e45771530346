"""Bisection: the switches without which a model does not fail, in log n runs."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from vknn import environment
from vknn.errors import VknnError
from vknn.formats.layer_files import run_layer_files
from vknn.lowering.choose.candidates import kernel_switch
from vknn.named_files import temporary_folder
from vknn.precision import check_uniform
from vknn.reduction.bisect_report import BisectReport
from vknn.reduction.cases import GraphCase, stages
from vknn.reduction.judges import ChildJudge, CommandJudge, Judge
from vknn.reduction.nodes import guesses
from vknn.reduction.reduce import first_failing
from vknn.reduction.search import Tell, tried
from vknn.reduction.switches import NO_KERNELS, PartSwitch, decisive, switches
from vknn.reduction.verdict import Verdict
from vknn.reduction.worker import TrialSetting
from vknn.session import Session
from vknn.tool_inputs import Shapes, complete_feeds


def bisect(
    model: str | os.PathLike[str],
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    check: str | None = None,
    timeout: float = 60.0,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: str = "fp32",
    arithmetic: str = "fp32",
    disable: Iterable[str] = (),
    layers: Iterable[str | os.PathLike[str]] = (),
    shapes: Shapes | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    cumulative_tolerance: float | None = None,
    progress: Tell | None = None,
) -> BisectReport:
    """The passes, kernels, features or tuned choices without which a model does not fail.

    Besides what :func:`vknn.verify` compares, the rewritten graph is held against the graph as it
    was read, both with NumPy: that shows a wrong pass. Runs are made in other processes, on the
    part of the model that fails where that is known, and at the end on the whole model.

    Args:
        model: A model file, or a folder that ``vknn reduce`` wrote.
        inputs: Arrays by name, as for :meth:`vknn.Session.run`; random ones stand in for those that
            are missing.
        check: A command that is given a folder with the model (as ``vknn reduce`` writes it) as its
            last argument, with VKNN_DISABLE in its environment; its exit code is 0 where nothing
            fails. Kernels and tuned choices are not told apart then.
        timeout: Seconds that a run may take, the whole model's too.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used with ``check``, which chooses itself. So are
            ``precision``, ``arithmetic``, ``disable`` and the tolerances.
        precision: "fp32", "fp16" or "bf16", for all layers.
        arithmetic: As for :class:`vknn.Session`.
        disable: Names that stay switched off.
        layers: Python files that register layers of one's own, which the other process needs.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.
        tolerance: As for :func:`vknn.verify`.
        cumulative_tolerance: As for :func:`vknn.verify`.
        progress: Told the number of runs, twice, and what is being tried.

    Returns:
        A report; its ``ok`` is True where nothing fails.

    Raises:
        vknn.InputError: As :func:`vknn.verify`.
        vknn.VknnError: The command cannot be run, or what :class:`vknn.Session` raises.
    """
    started = time.perf_counter()
    check_uniform(precision, "bisect")
    if timeout <= 0:
        raise VknnError(f"timeout={timeout}: it must be above 0 seconds")
    files = tuple(os.path.abspath(path) for path in layers)
    off = frozenset(disable)
    setting = TrialSetting(
        device, precision, arithmetic, tuple(off), files, tolerance, cumulative_tolerance
    )
    run_layer_files(files, again=False)
    with Session(model, weights, device="numpy") as session:
        cases = stages(session, complete_feeds(session, inputs, shapes, seed))
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("vknn-bisect-"))
        judge: Judge = CommandJudge(check, timeout) if check else ChildJudge(setting, timeout)
        stack.enter_context(judge)
        case, failure = first_failing(judge, cases, Path(folder) / "whole", progress)
        runs = _Runs(judge, Path(folder), case, failure, progress or (lambda *_: None))
        report = runs.report(str(model), off | environment.disabled())
    return dataclasses.replace(report, seconds=time.perf_counter() - started)


class _Runs:
    """Runs of a failing case with switches off, on a part of it where one fails alike."""

    def __init__(
        self, judge: Judge, folder: Path, case: GraphCase, failure: Verdict, tell: Tell
    ) -> None:
        self._judge, self._whole, self._tell = judge, folder / "whole", tell
        self.case, self.failure, self.runs = case, failure, 1
        self._part = folder / "part"

    def report(self, model: str, off: frozenset[str]) -> BisectReport:
        """What the switches do."""
        failure, facts = self.failure, self._judge.facts
        if not failure.fails:
            return BisectReport(model, failure, facts, runs=self.runs)
        place = self._smaller()
        if not self.failure.is_like(self._run(place, (), "again")):
            return BisectReport(model, failure, facts, runs=self.runs, steady=False)
        found = decisive(switches(self.failure, off), lambda s: self._works(place, s))
        host = None if found else self._on_host(place)
        helps = found or ([host] if host else [])
        sure = place == self._whole or not helps or self._works(self._whole, helps)
        return BisectReport(
            model, failure, facts, tuple(found), host, sure, runs=self.runs, off=tuple(sorted(off))
        )

    def _smaller(self) -> Path:
        """The folder of the part that fails, the wrong layer with its neighbours; or the whole."""
        for nodes in reversed(list(guesses(self.case, self.failure))):
            self._say("a part")
            outcome = tried(self._judge, self.case.part(nodes), self._part)
            if self.failure.is_like(outcome):
                self.failure = outcome
                return self._part
        return self._whole

    def _works(self, place: Path, off: Sequence[PartSwitch]) -> bool:
        return not self._run(place, [s.name for s in off], f"{len(off)} switched off").fails

    def _run(self, place: Path, off: Sequence[str], what: str) -> Verdict:
        self._say(what)
        return self._judge(place, off)

    def _say(self, what: str) -> None:
        self.runs += 1
        self._tell(self.runs, self.runs, what)

    def _on_host(self, place: Path) -> PartSwitch | None:
        """The switch that has the host compute the wrong operator, where that helps."""
        kernels = self.failure.kernels if self.failure.layers else ()
        op = next((label.partition(" ")[0] for label in kernels if label not in NO_KERNELS), "")
        if not op:
            return None
        switch = PartSwitch(
            kernel_switch(op), "kernels", f"all kernels of {op}: the host computes it"
        )
        return switch if self._works(place, [switch]) else None
