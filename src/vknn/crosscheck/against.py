"""A record of another engine's tensors against NumPy and the device: who is alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vknn.crosscheck.comparison import ArrayComparison, compare
from vknn.crosscheck.cumulative import CUMULATIVE, widened
from vknn.crosscheck.json_text import json_text
from vknn.crosscheck.matching import TensorMatch, matched
from vknn.crosscheck.npz_files import load_npz
from vknn.crosscheck.tensors import tensors_of
from vknn.crosscheck.tolerance import Allowance
from vknn.errors import InputError
from vknn.precision import Precision
from vknn.rich_text import text_of
from vknn.session import Session
from vknn.tool_inputs import complete_feeds, needed_inputs, opened


@dataclass(frozen=True)
class AgainstRow:
    """A recorded tensor beside the model's own.

    Attributes:
        recorded: Its name in the record.
        layer: Name of the layer in the model file.
        op: Name of the operator.
        output: Name of the model's tensor.
        how: "name", "layer" or "shape": what they were matched by.
        layout: What was done to the recorded array to fit; empty where nothing was.
        other_numpy: The record held against NumPy.
        device_numpy: The device held against NumPy; None without a device.
        device_other: The device held against the record; None without a device.
        alone: "record", "device" or "NumPy", whichever differs while the other two agree; "all"
            where no two agree; empty where all do. Without a device "record" where it differs.
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
class AgainstReport:
    """Result of :func:`vknn.crosscheck.against`. ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the model.
        device: Name of the device, "NumPy" without one.
        rows: One for each recorded tensor that is the model's, in the order of the graph.
        unmatched: Names of recorded tensors that match nothing.
    """

    model: str
    device: str
    rows: tuple[AgainstRow, ...]
    unmatched: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True where all agree, and there was something to compare."""
        return bool(self.rows) and all(not row.alone for row in self.rows)

    def summary(self) -> str:
        """The verdict in one line: the first tensor that differs, and who is alone there."""
        if not self.rows:
            return "no recorded tensor matches one of the model's"
        row = next((row for row in self.rows if row.alone), None)
        if row is None:
            return f"all {len(self.rows)} recorded tensors agree"
        who = "no two agree" if row.alone == "all" else f"the {row.alone} is alone"
        return f"first difference: {row.op} {row.layer!r} ({row.recorded}): {who}"

    def to_json(self) -> str:
        """The report as JSON (infinities and NaN as strings)."""
        return json_text({**dataclasses.asdict(self), "ok": self.ok})

    def table(self) -> Table:
        """The rows as a rich table; errors are multiples of what is allowed."""
        table = Table(title=f"{self.model} on {self.device}", title_justify="left")
        for name in ("recorded", "layer", "operator", "matched by", "layout"):
            table.add_column(name, overflow="fold")
        for name in ("record/NumPy", "device/NumPy", "device/record"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("alone")
        for row in self.rows:
            errors = map(_error, (row.other_numpy, row.device_numpy, row.device_other))
            texts = map(escape, (row.recorded, row.layer, row.op, row.how, row.layout))
            table.add_row(*texts, *errors, row.alone, style="red" if row.alone else None)
        return table

    def notes(self) -> list[str]:
        """A line on recorded tensors that match nothing."""
        return [f"not the model's: {', '.join(self.unmatched)}"] if self.unmatched else []

    def __rich__(self) -> RenderableType:
        lines = (*self.notes(), self.summary())
        return Group(self.table(), *map(Text, lines))

    def __str__(self) -> str:
        return text_of(self)


def against(
    model: str | os.PathLike[str] | Session,
    recorded: str | os.PathLike[str] | Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    tolerance: float | None = None,
) -> AgainstReport:
    """Comparison of tensors that another engine computed with NumPy's and the device's.

    Tensors are matched by name, by the name of the layer, and by shape where only one fits or one
    is near; layouts (channels last, axes of 1) are tried and told.

    Args:
        model: A model file or an open session.
        recorded: A .npz file or arrays, by the names of tensors or layers; it may hold the inputs
            by their names, as :func:`vknn.crosscheck.dump` writes them.
        inputs: The inputs that the record lacks.
        weights: As for :func:`vknn.verify`; so are ``device``, ``precision`` and ``arithmetic``.
        tolerance: Error allowed to a tensor, relative to its largest element; by default as for
            cumulative results of :func:`vknn.verify`.

    Raises:
        vknn.InputError: An input is neither recorded nor given, or the file cannot be read.
        vknn.VknnError: As for :func:`vknn.verify`.
    """
    arrays = dict(recorded) if isinstance(recorded, Mapping) else load_npz(recorded)
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        names = {spec.name for spec in session.inputs}
        feeds = {**{n: a for n, a in arrays.items() if n in names}, **(inputs or {})}
        if missing := [spec.name for spec in needed_inputs(session, feeds)]:
            raise InputError(f"input {missing[0]!r} is neither recorded nor given")
        feeds = complete_feeds(session, feeds)
        own = tensors_of(session, feeds, on_device=False)
        known = [t for t in own if t.node is not None]
        left = {name: array for name, array in arrays.items() if name not in names}
        matches, unmatched = matched(left, known)
        there = session.device is not None
        on_device = (
            {t.name: t.array for t in tensors_of(session, feeds, on_device=True)} if there else {}
        )
        share = CUMULATIVE[session.precision, session.arithmetic]
        share = share if tolerance is None else tolerance
        rows = tuple(_row(m, on_device.get(m.own.name), share) for m in matches)
        name = str(model) if not isinstance(model, Session) else str(session.model.file or "model")
        title = session.device.name if session.device is not None else "NumPy"
        return AgainstReport(name, title, rows, tuple(unmatched))


def _row(match: TensorMatch, computed: np.ndarray | None, share: float) -> AgainstRow:
    right = match.own.array
    # A record may be in float64 or float16: it is as near as its dtype can be.
    with np.errstate(all="ignore"):
        other = match.array.astype(right.dtype)
    bound = widened(Allowance(np.abs(right), np.zeros(1)), right, share)
    other_numpy = compare(other, right, bound)
    device_numpy = None if computed is None else compare(computed, right, bound)
    device_other = None if computed is None else compare(computed, other, bound)
    node = match.own.node
    assert node is not None
    return AgainstRow(
        match.recorded, node.origin.name, node.op.type_name, match.own.name, match.how,
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


def _error(comparison: ArrayComparison | None) -> str:
    if comparison is None:
        return ""
    return comparison.problem or ("0" if not comparison.excess else f"{comparison.excess:.2g}")
