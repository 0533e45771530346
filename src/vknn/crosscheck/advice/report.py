"""Report of an advice on precision: ranges, shares of the error, and the list of layers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vknn.crosscheck.advice.ranges import LARGEST, SMALLEST, TensorRange
from vknn.crosscheck.json_text import json_text
from vknn.crosscheck.pages import PageReport, page_table
from vknn.errors import VknnError
from vknn.lowering.kit.layer_precisions import REST
from vknn.named_files import replacing
from vknn.printable import one_line
from vknn.reports import check_page
from vknn.rich_text import text_of

#: Rows that tables show; JSON has all.
_SHOWN = 15
#: Layers that the summary names, where it could name the others.
_NAMED = 8
#: Share of small elements from which on a tensor is shown.
_SLIGHT = 0.01
#: What was timed, in words.
_NAMES = {"list": "the list in fp32"}


@dataclass(frozen=True)
class LayerAdvice:
    """A layer's part in the error.

    Attributes:
        name: Its name; layers that passes joined have theirs joined by "+".
        ops: Types of its operators.
        share: Share of the error of the outputs, in mean squares; None: not measured in time.
        alone: The largest error of an output where this layer alone takes 16 bits, relative to the
            output's largest element; infinite where a number becomes infinite.
        own: The root of the mean square error of its own results then, relative to theirs.
        keep: Whether it is on the list.
    """

    name: str
    ops: tuple[str, ...]
    share: float | None
    alone: float | None
    own: float
    keep: bool


@dataclass(frozen=True)
class PlanTime:
    """Seconds of a run, measured in turn with others: for orientation.

    Attributes:
        name: "fp16" or "bf16", "list" (with the list in float32), or "fp32".
        least: The least of the runs.
        median: Their median.
    """

    name: str
    least: float
    median: float


@dataclass(frozen=True, eq=False)
class PrecisionAdvice(PageReport):
    """Result of :func:`vknn.crosscheck.advise`. ``print`` shows it as tables.

    Errors are relative to an output's largest element.

    Attributes:
        model: The file, or the session's.
        device: Name of the device, "NumPy" without one.
        narrow: The precision of all other layers, "fp16" or "bf16".
        tolerance: Error allowed to any output.
        records: Number of inputs.
        ranges: Of all tensors of floats, in the order of the graph.
        layers: What each adds, in that order, on the input with the largest error.
        kept: The layers that have to stay in float32; empty: none, None: no list was found.
        complete: False where time or trials ran out before nothing more could be left out.
        worst_input: Name of the input with the largest error.
        error_without: The largest error with all layers in 16 bits, of all inputs.
        error_with: The largest error with the list; None without one.
        error_fp32: The largest error with all layers in float32; None where it was not needed.
        trials: Number of lists that were tried.
        simulated: True where NumPy tried them, as there was no device.
        times: Of runs without the list, with it, and in float32.
        seconds: How long the advice took.
        broken: Inputs that could not be read or computed: name and error.
        graph: The model's layers with the tensors between them, for the page.
    """

    model: str
    device: str
    narrow: str
    tolerance: float
    records: int
    ranges: tuple[TensorRange, ...]
    layers: tuple[LayerAdvice, ...]
    kept: tuple[str, ...] | None
    complete: bool
    worst_input: str
    error_without: float
    error_with: float | None
    error_fp32: float | None
    trials: int
    simulated: bool
    times: tuple[PlanTime, ...]
    seconds: float
    broken: tuple[tuple[str, str], ...] = ()
    graph: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def ok(self) -> bool:
        """True where a list, or none at all, meets the tolerance."""
        return self.kept is not None

    @property
    def precision(self) -> dict[str, str] | None:
        """The mapping for ``precision=`` of :class:`vknn.Session`; None where no list was found."""
        if self.kept is None:
            return None
        return {REST: self.narrow, **dict.fromkeys(self.kept, "fp32")}

    def save(self, path: str | os.PathLike[str]) -> None:
        """The file that ``precision=`` takes. Raises VknnError where no list was found."""
        if self.precision is None:
            raise VknnError(f"there is no list to write: {self.summary()}")
        text = json.dumps(self.precision, indent=1) + "\n"
        with replacing(path) as file:
            file.write(text.encode())

    def summary(self) -> str:
        """The advice in one line."""
        limit = f"the tolerance {self.tolerance:g}"
        if self.kept is None and self.complete:
            return (
                f"no list meets {limit}: with all layers in fp32 the error is {self.error_fp32:.3g}"
            )
        if self.kept is None:
            return f"no list that meets {limit} was found in time: the tolerance needs a longer one"
        if not self.kept:
            return (
                f"{self.narrow} meets {limit} in all layers, with an error of "
                f"{self.error_without:.3g}: none has to stay in fp32"
            )
        names = [one_line(layer.name) for layer in self.layers if layer.keep]
        others = [one_line(layer.name) for layer in self.layers if not layer.keep]
        what = ", ".join(names)
        if not others:
            what = f"all: none may be {self.narrow}"
        elif len(others) < len(names) > _NAMED:
            what = f"all but {', '.join(others)}"
        return (
            f"{len(names)} of {len(self.layers)} layers have to stay in fp32 for {limit}: {what} "
            f"(error {self.error_with:.3g} instead of {self.error_without:.3g})"
        )

    def notes(self) -> Iterator[str]:
        """Lines below the tables: inputs, how lists were tried, what ran out, times."""
        for name, error in self.broken[:10]:
            yield f"{one_line(name)}: {one_line(error)}"
        where = "by NumPy, without a device," if self.simulated else f"on {self.device}"
        counts = (_counted(self.records, "input"), _counted(self.trials, "list"))
        yield f"{counts[0]}, {counts[1]} tried {where} in {self.seconds:.1f} s"
        if not self.complete:
            yield "time or trials ran out: a shorter list may do (--time-limit)"
        missing = sum(layer.share is None for layer in self.layers)
        if missing:
            yield f"{missing} layers were not measured in time (--time-limit)"
        for time in self.times:
            yield (
                f"a run with {_NAMES.get(time.name, f'all layers in {time.name}')}: "
                f"{time.least * 1e3:.2f} ms at least, {time.median * 1e3:.2f} ms in the median"
            )

    def table(self, most: int | None = _SHOWN) -> Table:
        """Layers by their share of the error, those on the list first; ``most`` None: all."""
        table = Table(title=f"what layers add to the error in {self.narrow}")
        for name, justify in (("layer", "left"), ("operators", "left"), ("share", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for name in ("output alone", "its own", "advice"):
            table.add_column(name, justify="right" if name != "advice" else "left")
        ranked = self._ranked()
        for layer in ranked[:most]:
            table.add_row(
                escape(one_line(layer.name)),
                ", ".join(dict.fromkeys(layer.ops)),
                "?" if layer.share is None else f"{layer.share:.1%}",
                "?" if layer.alone is None else f"{layer.alone:.2g}",
                f"{layer.own:.2g}",
                "fp32" if layer.keep else self.narrow,
            )
        if most is not None and len(ranked) > most:
            table.caption = f"{len(ranked) - most} more (--json has all)"
        return table

    def _ranked(self) -> list[LayerAdvice]:
        return sorted(self.layers, key=lambda x: (not x.keep, -(x.share or 0.0)))

    def _unfit(self) -> list[TensorRange]:
        """Tensors with elements that are lost, or many that lose digits, the worst first."""
        some = [r for r in self.ranges if r.overflow or r.zero + r.subnormal >= _SLIGHT]
        return sorted(some, key=lambda r: (-r.overflow, -(r.zero + r.subnormal)))

    def range_table(self, most: int | None = _SHOWN) -> Table:
        """Tensors that become infinite in 16 bits, or lose a hundredth of their elements."""
        largest, smallest = LARGEST[self.narrow], SMALLEST[self.narrow]
        table = Table(
            title=f"tensors beyond {self.narrow}: above {largest:g}, or below {smallest:.3g}"
        )
        for name in ("tensor", "layer"):
            table.add_column(name)
        for name in ("largest", "smallest", "infinite", "subnormal", "zero"):
            table.add_column(name, justify="right")
        unfit = self._unfit()
        for r in unfit[:most]:
            table.add_row(
                escape(one_line(r.name)) + (" (weight)" if r.kind == "weight" else ""),
                escape(one_line(r.layer)),
                f"{r.largest:.3g}",
                f"{r.smallest:.3g}",
                *(f"{share:.2%}" if share else "" for share in (r.overflow, r.subnormal, r.zero)),
            )
        if most is not None and len(unfit) > most:
            table.caption = f"{len(unfit) - most} more (--json has all)"
        return table

    def to_json(self) -> str:
        """The report as JSON; infinities are text."""
        document = dataclasses.asdict(self)
        del document["graph"]  # the model's file has it
        document |= {"ok": self.ok, "precision": self.precision, "summary": self.summary()}
        return json_text(document)

    def to_html(self) -> str:
        """The report as one HTML file: layers in the colour of their errors, and both tables."""
        document = {
            "model": self.model,
            "device": self.device,
            "ok": self.ok,
            "summary": self.summary(),
            "notes": list(self.notes()),
            "over": "over it, or to stay in fp32",
            "rows": [self._page_row(layer) for layer in self._ranked()],
        }
        beyond = f"Tensors beyond {self.narrow}"
        tables = [
            page_table(self.table(None), f"What layers add to the error in {self.narrow}", "rows"),
            *([page_table(self.range_table(None), beyond)] if self._unfit() else []),
        ]
        return check_page(document, self.graph, tables)

    def _page_row(self, layer: LayerAdvice) -> dict[str, Any]:
        """A layer as pages have it: the output's error where it alone is in 16 bits."""
        sides = {}
        if layer.alone is not None:
            share = {} if layer.share is None else {"share of the error": f"{layer.share:.1%}"}
            sides[f"alone in {self.narrow}"] = {
                "ok": layer.alone <= self.tolerance,
                "excess": layer.alone / self.tolerance,
                "told": {**share, "the output's error": layer.alone, "its own error": layer.own},
            }
        ops = ", ".join(dict.fromkeys(layer.ops))
        return {
            **dict.fromkeys(("layer", "node", "output"), layer.name),
            "title": f"{layer.name}: {ops}, in {'fp32' if layer.keep else self.narrow}",
            "ok": not layer.keep,
            "sides": sides,
        }

    def __rich__(self) -> RenderableType:
        tables = [self.table(), *([self.range_table()] if self._unfit() else [])]
        return Group(*tables, *(Text(line) for line in (*self.notes(), self.summary())))

    def __str__(self) -> str:
        return text_of(self)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
