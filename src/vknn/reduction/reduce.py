"""Reduction: the least part of a model, with the least inputs, that still fails."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from vknn.errors import VknnError
from vknn.formats.graph_folder.writer import ARRAYS, GRAPH, save
from vknn.formats.layer_files import run_layer_files
from vknn.graph import format_graph
from vknn.named_files import temporary_folder
from vknn.precision import check_uniform
from vknn.reduction.cases import GraphCase, stages
from vknn.reduction.judges import ChildJudge, CommandJudge, Judge, device_facts
from vknn.reduction.nodes import fewer_nodes
from vknn.reduction.readme import README, readme
from vknn.reduction.report import ReductionReport, Size
from vknn.reduction.search import OutOfTime, Search, Tell, tried
from vknn.reduction.sizes import smaller_sizes
from vknn.reduction.values import simpler_values
from vknn.reduction.verdict import Verdict
from vknn.reduction.worker import TrialSetting
from vknn.session import Session
from vknn.tool_inputs import Shapes, complete_feeds

#: What a folder may hold that a reduction writes to.
_OWN = (GRAPH, ARRAYS, README)


def reduce(
    model: str | os.PathLike[str],
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    output: str | os.PathLike[str],
    check: str | None = None,
    timeout: float = 60.0,
    limit: float = 600.0,
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
) -> ReductionReport:
    """The least part of a model that still fails as the model does, as a model of its own.

    Nodes are left out, what they made becoming inputs; then sizes, weights and inputs are made
    smaller and simpler, as long as the same failure is seen. Each candidate is tried in another
    process, so that crashes and hangs are failures like others. Ctrl-C ends the search with the
    best candidate so far.

    Args:
        model: A model file, or a folder that was written here.
        inputs: Arrays by name, as for :meth:`vknn.Session.run`; random ones stand in for those that
            are missing.
        output: The folder for the result: new, empty or written here before. It is a model that
            every command opens, with a README.
        check: A command that is given a candidate's folder as its last argument; its exit code is 0
            where nothing fails. By default candidates are verified as by :func:`vknn.verify`.
        timeout: Seconds that a candidate may take, the whole model too.
        limit: Seconds after which the best candidate so far is the result.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used with ``check``, which chooses itself. So are
            ``precision``, ``arithmetic``, ``disable`` and the tolerances.
        precision: "fp32", "fp16" or "bf16", for all layers.
        arithmetic: As for :class:`vknn.Session`.
        disable: As for :class:`vknn.Session`.
        layers: Python files that register layers of one's own, which the other process needs.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.
        tolerance: As for :func:`vknn.verify`.
        cumulative_tolerance: As for :func:`vknn.verify`.
        progress: Told the number of candidates tried, twice, and what is being made smaller.

    Returns:
        A report; its ``ok`` is True where nothing fails, and nothing is written then.

    Raises:
        vknn.InputError: As :func:`vknn.verify`.
        vknn.VknnError: The folder holds other files, the command cannot be run, or what
            :class:`vknn.Session` raises.
    """
    started = time.perf_counter()
    check_uniform(precision, "reduce")
    if timeout <= 0 or limit <= 0:
        raise VknnError(f"timeout={timeout}, limit={limit}: both must be above 0 seconds")
    files = tuple(os.path.abspath(path) for path in layers)
    target = _checked_folder(Path(output), files)
    setting = TrialSetting(
        device, precision, arithmetic, tuple(disable), files, tolerance, cumulative_tolerance
    )
    run_layer_files(files, again=False)
    with Session(model, weights, device="numpy") as session:
        cases = stages(session, complete_feeds(session, inputs, shapes, seed))
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("vknn-reduce-"))
        judge: Judge = CommandJudge(check, timeout) if check else ChildJudge(setting, timeout)
        stack.enter_context(judge)
        case, failure = first_failing(judge, cases, Path(folder) / "case", progress)
        report = ReductionReport(
            model=str(model),
            failure=failure,
            before=_size(case),
            after=_size(case),
            folder="" if not failure.fails else str(target),
            check=check,
            setting=setting,
            seed=seed,
            stages=len(cases),
        )
        if not failure.fails:
            return dataclasses.replace(report, seconds=time.perf_counter() - started)
        target.mkdir(parents=True, exist_ok=True)
        search = Search(
            judge,
            Path(folder) / "case",
            case,
            failure,
            started + limit,
            progress or (lambda done, total, what: None),
            lambda best: save(target, best.graph, best.feeds, compressed=best.is_small),
        )
        search.keep(case)
        stopped = _searched(search)
        try:
            last = tried(judge, search.best, Path(folder) / "case")
        except KeyboardInterrupt:
            last = failure
    facts = _facts(judge, setting, timeout)
    graph = search.best.graph
    report = dataclasses.replace(
        report,
        after=_size(search.best),
        trials=search.trials,
        seconds=time.perf_counter() - started,
        stopped=stopped,
        last=last,
        facts=facts,
        graph=format_graph(graph),
        operators=tuple((n.origin.name, n.op.type_name) for n in graph.nodes),
    )
    save(target, search.best.graph, search.best.feeds)
    _finish(target, report, files)
    return report


def first_failing(
    judge: Judge, cases: list[GraphCase], folder: Path, progress: Tell | None
) -> tuple[GraphCase, Verdict]:
    """The first stage that fails, and how; the first of all where none does."""
    found: list[Verdict] = []
    for case in cases:
        if progress is not None:
            progress(0, 1, "the whole model")
        found.append(tried(judge, case, folder))
        if found[-1].detail == "unwritten":
            raise VknnError(found[-1].text)
        if found[-1].fails:
            return case, found[-1]
    return cases[0], next((o for o in found if o.kind == "agrees"), found[0])


def _searched(search: Search) -> str:
    """Search by all steps; why it was ended before it was done, or ""."""
    try:
        fewer_nodes(search)
        smaller_sizes(search)
        simpler_values(search)
    except OutOfTime:
        return "out of time"
    except KeyboardInterrupt:
        return "interrupted"
    return ""


def _size(case: GraphCase) -> Size:
    return Size(len(case.graph.nodes), case.elements, case.nbytes)


def _checked_folder(folder: Path, files: tuple[str, ...]) -> Path:
    """The folder, if it is to be had; raises VknnError for one with other files in it."""
    own = {*_OWN, *(os.path.basename(file) for file in files)}
    if folder.exists() and not folder.is_dir():
        raise VknnError(f"{folder} is no folder: the result is one")
    present = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    if present - own or (present and GRAPH not in present):
        raise VknnError(f"{folder} holds other files, such as {min(present)}: name a new folder")
    return folder


def _facts(judge: Judge, setting: TrialSetting, timeout: float) -> Mapping[str, object]:
    """Facts about the device, as far as it can still be opened."""
    if isinstance(judge, ChildJudge) and judge.facts:
        return judge.facts
    try:
        return device_facts(setting, timeout)
    except VknnError as error:
        return {"device": str(error)}


def _finish(target: Path, report: ReductionReport, files: tuple[str, ...]) -> None:
    """The files that stand beside the graph: layers of one's own, and the README."""
    for file in files:
        if Path(file).resolve() != (target / Path(file).name).resolve():
            shutil.copyfile(file, target / Path(file).name)
    (target / README).write_text(readme(report), encoding="utf-8")
