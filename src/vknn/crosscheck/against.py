"""Another engine's tensors, recorded or live, against NumPy and the device: who is alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from vknn.crosscheck.comparison import ArrayComparison, compare, in_one_dtype
from vknn.crosscheck.cumulative import check_tolerances, near
from vknn.crosscheck.engines import ENGINES, TIMEOUT, EngineRun, run_engine
from vknn.crosscheck.json_text import json_text
from vknn.crosscheck.matching import HOWS, TensorMatch, matched
from vknn.crosscheck.pages import page_table
from vknn.crosscheck.records import is_record, load_record
from vknn.crosscheck.tensor_report import TensorReport, error_cell, listed
from vknn.crosscheck.tensors import tensors_of
from vknn.errors import InputError
from vknn.graph.layers import layers_of
from vknn.precision import CUMULATIVE, Precision
from vknn.printable import one_line
from vknn.reports import check_page
from vknn.session import Session, engine_of
from vknn.tool_inputs import Shapes, complete_feeds, needed_inputs, opened


@dataclass(frozen=True)
class AgainstRow:
    """Another engine's tensor beside the model's own.

    Attributes:
        recorded: Its name in the record, or by the engine that ran.
        layer: Name of the layer in the model file; empty, as is ``op``, of an output of a model
            whose data decide how it goes on.
        op: Name of the operator.
        output: Name of the model's tensor.
        how: "name", "layer" or "shape": what they were matched by.
        layout: What was done to the engine's array to fit; empty where nothing was.
        other_numpy: The engine held against NumPy.
        device_numpy: The device held against NumPy; None without a device.
        device_other: The device held against the engine; None without a device.
        alone: "record" (the other engine, also one that ran), "device" or "NumPy", whichever
            differs while the other two agree; "all" where no two agree; empty where all do. Without
            a device "record" where it differs.
    """

    recorded: str
    layer: str
    op: str
    output: str
    how: str
    layout: str
    other_numpy: ArrayComparison
    device_numpy: ArrayComparison | None
    device_other: ArrayComparison | None
    alone: str


@dataclass(frozen=True)
class AgainstReport(TensorReport):
    """Result of :func:`vknn.crosscheck.against`. ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the model.
        device: Name of the device, "NumPy" without one.
        rows: One for each of the engine's tensors that is the model's, in the order of the graph.
        unmatched: Names of its tensors that match nothing.
        engine: Name and version of the engine that ran; empty for a record.
        outputs_left: Names of the model's outputs that were not compared: the engine has none that
            matches, or they are no arrays.
        layers: The model's layers with the tensors between them, for the page.
    """

    model: str
    device: str
    rows: tuple[AgainstRow, ...]
    unmatched: tuple[str, ...] = ()
    engine: str = ""
    outputs_left: tuple[str, ...] = ()
    layers: list[dict[str, Any]] = field(default_factory=list, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """True where all agree, and there was something to compare."""
        return bool(self.rows) and all(not row.alone for row in self.rows)

    def summary(self) -> str:
        """The verdict in one line: the first tensor that differs, and who is alone there."""
        kind = f"tensors of {self.engine}" if self.engine else "recorded tensors"
        if not self.rows:
            return f"none of the {kind} matches one of the model's"
        row = next((row for row in self.rows if row.alone), None)
        if row is None:
            return f"all {len(self.rows)} {kind} agree"
        who = {"all": "no two agree", "record": f"{self.engine or 'the record'} is alone"}
        verdict = who.get(row.alone, f"the {row.alone} is alone")
        place = f"{row.op} {row.layer!r}" if row.op else "output"
        return f"first difference: {place} ({one_line(row.recorded)}): {verdict}"

    def to_json(self) -> str:
        """The report as JSON (infinities and NaN as strings)."""
        document = {**dataclasses.asdict(self), "ok": self.ok}
        del document["layers"]  # the model's file has them
        return json_text(document)

    def to_html(self) -> str:
        """The report as one HTML file: layers in the colour of their differences, and the table."""
        document = {
            "model": self.model,
            "device": self.device,
            "ok": self.ok,
            "summary": self.summary(),
            "notes": self.notes(),
            "over": "two of the three differ by more",
            "rows": [self._page_row(row) for row in self.rows],
        }
        title = f"Tensors of {self.engine or 'the record'}"
        return check_page(document, self.layers, [page_table(self.table(), title, "rows")])

    def _page_row(self, row: AgainstRow) -> dict[str, Any]:
        other = self._other
        sides = {
            f"{other} and NumPy": row.other_numpy,
            "device and NumPy": row.device_numpy,
            f"device and {other}": row.device_other,
        }
        alone = {"": "all agree", "all": "no two agree", "record": f"{other} is alone"}
        who = alone.get(row.alone, f"{row.alone} is alone")
        return {
            "layer": row.layer,
            "node": row.recorded,
            "output": row.output,
            "title": f"{row.recorded}: {row.op or 'output'}, {row.output}: {who}",
            "ok": not row.alone,
            "sides": {n: dataclasses.asdict(side) for n, side in sides.items() if side is not None},
        }

    @property
    def _other(self) -> str:
        """The engine's name, without its version."""
        return self.engine.rpartition(" ")[0] or "record"

    def table(self, failures: bool = False) -> Table:
        """The rows as a rich table; errors are multiples of what is allowed.

        ``failures``: only those where not all agree.
        """
        other = self._other
        table = Table(
            title=escape(one_line(f"{self.model} on {self.device}")), title_justify="left"
        )
        for name in (f"name ({other})", "layer", "operator", "matched by", "layout"):
            table.add_column(name, overflow="fold")
        for name in (f"{other}/NumPy", "device/NumPy", f"device/{other}"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("alone")
        for row in self.rows:
            if failures and not row.alone:
                continue
            errors = map(error_cell, (row.other_numpy, row.device_numpy, row.device_other))
            names = map(one_line, (row.recorded, row.layer, row.op, row.how, row.layout))
            texts = map(escape, names)
            alone = other if row.alone == "record" else row.alone
            table.add_row(*texts, *errors, alone, style="red" if row.alone else None)
        return table

    def notes(self) -> list[str]:
        """Lines on the engine's tensors that match nothing, and on outputs that it lacks."""
        notes = []
        if self.unmatched:
            notes.append(f"not compared, as the model has no such tensor: {listed(self.unmatched)}")
        if self.outputs_left:
            who = self.engine or "the record"
            notes.append(f"outputs not compared, as {who} lacks them: {listed(self.outputs_left)}")
        return notes


def against(
    model: str | os.PathLike[str] | Session,
    other: str | os.PathLike[str] | Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    runner: str | None = None,
    iteration: int | None = None,
    timeout: float = TIMEOUT,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> AgainstReport:
    """Comparison of tensors that another engine computed with NumPy's and the device's.

    Tensors are matched by name, by the name of the layer, and by shape where only one fits or one
    is near; layouts (channels last, axes of 1, packs of channels) are tried and told.

    Args:
        model: A model file or an open session.
        other: An engine, "ncnn", "litert", "onnxruntime" or "coremltools", which is run with the
            same inputs where its wheel is installed; or a record: a .npz file, Polygraphy's JSON
            (``--save-outputs``), or arrays, by the names of tensors or layers. A record may hold
            the inputs by their names, as :func:`vknn.crosscheck.dump` writes them.
        inputs: The inputs that the record lacks; for an engine random ones stand in for those that
            are missing. :func:`vknn.crosscheck.load_record` reads them from files.
        runner: Of Polygraphy's results, the runner: its name, or a part that one alone has.
        iteration: Of Polygraphy's results, the iteration, from 0 (the first).
        timeout: Seconds that an engine may take.
        weights: As for :func:`vknn.verify`; so are ``device``, ``precision`` and ``arithmetic``.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.
        tolerance: Error allowed to a tensor, relative to its largest element; by default as for
            cumulative results of :func:`vknn.verify`. Without it integers have to be equal, those
            of 8 and 16 bits, which may be codes of real numbers, but for one step.

    Raises:
        vknn.InputError: An input is neither recorded nor given, or the file cannot be read.
        vknn.VknnError: The engine is not installed, does not run such models, crashed or was not
            done in time; or as for :func:`vknn.verify`.
    """
    check_tolerances(tolerance=tolerance)
    live = isinstance(other, str) and other in ENGINES
    arrays = {} if live else _recorded(other, runner, iteration)
    if live and (runner is not None or iteration is not None):
        raise InputError(f"{other} has no runners and iterations, which Polygraphy's files have")
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        names = {spec.name for spec in session.inputs}
        feeds = {**{n: a for n, a in arrays.items() if n in names}, **(inputs or {})}
        if not live and (missing := [spec.name for spec in needed_inputs(session, feeds)]):
            raise InputError(f"input {missing[0]!r} is neither recorded nor given")
        feeds = complete_feeds(session, feeds, shapes, seed)
        run = EngineRun("", arrays)
        if live:
            run = run_engine(str(other), session.model, feeds, weights=weights, timeout=timeout)
        left = {name: array for name, array in run.tensors.items() if name not in names}
        name = str(model) if not isinstance(model, Session) else str(session.model.file or "model")
        return _compared(session, name, feeds, left, run.title, tolerance)


def _recorded(
    record: str | os.PathLike[str] | Mapping[str, np.ndarray],
    runner: str | None,
    iteration: int | None,
) -> dict[str, np.ndarray]:
    """The arrays of a record."""
    if not isinstance(record, Mapping):
        if not os.path.exists(record) and not is_record(record):
            names = ", ".join(ENGINES)
            raise InputError(f"{os.fspath(record)}: no such file, and none of the engines {names}")
        return load_record(record, runner, iteration)
    if runner is not None or iteration is not None:
        raise InputError("arrays have no runners and iterations, which Polygraphy's files have")
    return dict(record)


def _compared(
    session: Session,
    name: str,
    feeds: Mapping[str, np.ndarray],
    tensors: Mapping[str, np.ndarray],
    engine: str,
    tolerance: float | None,
) -> AgainstReport:
    """The report on an engine's tensors."""
    own = tensors_of(session, feeds, on_device=False)
    # An engine that reads the same file has its names: what they do not match is folded away here.
    hows = ("name",) if engine else HOWS
    matches, unmatched = matched(tensors, [t for t in own if t.name not in feeds], hows)
    there = session.device is not None
    on_device = (
        {t.name: t.array for t in tensors_of(session, feeds, on_device=True)} if there else {}
    )
    rows = tuple(_row(m, on_device.get(m.own.name), session, tolerance) for m in matches)
    title = session.device.name if session.device is not None else "NumPy"
    met = {name for m in matches for name in (m.own.name, *m.own.aliases)}
    left = tuple(spec.name for spec in session.outputs if spec.name not in met)
    layers = layers_of(engine_of(session).graph(feeds), [])
    return AgainstReport(name, title, rows, tuple(unmatched), engine, left, layers)


def _row(
    match: TensorMatch, computed: np.ndarray | None, session: Session, tolerance: float | None
) -> AgainstRow:
    right = match.own.array
    share = CUMULATIVE[session.precision, session.arithmetic] if tolerance is None else tolerance
    given = tolerance is not None
    bound = other_bound = near(right, share, given)
    if match.array.dtype == np.float16 and tolerance is None:  # it is as near as that can be
        share = max(share, CUMULATIVE["fp16", "fp32"])
        other_bound = near(right, share, given)
    other_numpy = compare(*in_one_dtype(match.array, right), other_bound)
    device_numpy = device_other = None
    if computed is not None:
        device_numpy = compare(computed, right, bound)
        other, found = in_one_dtype(match.array, computed)
        device_other = compare(found, other, other_bound)
    node = match.own.node
    layer, op = ("", "") if node is None else (node.origin.name, node.op.type_name)
    return AgainstRow(
        match.recorded, layer, op, match.own.name, match.how,
        match.layout, other_numpy, device_numpy, device_other,
        _alone(other_numpy, device_numpy, device_other),
    )  # fmt: skip


def _alone(
    other_numpy: ArrayComparison,
    device_numpy: ArrayComparison | None,
    device_other: ArrayComparison | None,
) -> str:
    """Who differs while the other two agree."""
    if device_numpy is None or device_other is None:
        return "" if other_numpy.ok else "record"
    if other_numpy.ok and device_numpy.ok:
        return ""  # both lie within what NumPy is allowed
    if other_numpy.ok:
        return "device"
    if device_numpy.ok:
        return "record"
    return "NumPy" if device_other.ok else "all"
