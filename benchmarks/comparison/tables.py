"""A comparison as tables: for the terminal, and for docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table

from .results import EMPTY, NCNN, NCNN_CPU, NCNN_DEFAULT, VKNN, WARM, Comparison, Kernel, Network

BEGIN, END = "<!-- compare_ncnn: begin -->", "<!-- compare_ncnn: end -->"
KERNELS = 6
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Sheet:
    """A table: its first column is text, the others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Rows
    text: int = 1

    def rich(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for number, head in enumerate(self.heads):
            table.add_column(head, justify="left" if number < self.text else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        rule = ["---" if n < self.text else "---:" for n in range(len(self.heads))]
        lines = [self.heads, rule, *self.rows]
        return f"{self.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sheets(comparison: Comparison, kernels: int | None = None) -> list[Sheet]:
    """All tables; of each network's kernels only the ``kernels`` longest."""
    networks = comparison.networks
    made = [_speed(comparison)]
    if any(n.cold for n in networks):
        made.append(_cold(networks))
    if any(n.rss for n in networks):
        made.append(_memory(networks))
    if any(n.kernels for n in networks):
        made.append(_all_kernels(networks))
        made += [_kernels(n.name, n.kernels[:kernels]) for n in networks if n.kernels]
    return [*made, _goals(comparison)]


def show(comparison: Comparison, kernels: int = KERNELS) -> RenderableType:
    """Tables of everything for a terminal."""
    parts: list[RenderableType] = [_headline(comparison)]
    parts += [sheet.rich() for sheet in sheets(comparison, kernels)]
    parts += [f"{n.name}: {error}" for n in comparison.networks for error in n.errors]
    return Group(*parts)


def text(comparison: Comparison) -> str:
    """Text of :func:`show`, without colours."""
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(show(comparison))
    return capture.get()


def markdown(comparison: Comparison) -> str:
    """The tables without each network's own kernels."""
    chosen = [s for s in sheets(comparison) if not s.title.startswith("kernels of ")]
    return "\n\n".join([_headline(comparison), *(s.markdown() for s in chosen)])


def update_page(page: Path, comparison: Comparison) -> None:
    """Update of a page: the tables between its markers. Raises ValueError where it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} lacks the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{markdown(comparison)}\n\n{END}{after}", encoding="utf-8")


def _headline(comparison: Comparison) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in comparison.versions.items())
    limits, load = comparison.limits, comparison.settings.get("load")
    peaks = "" if load is None else f" Load when it began: {load:.1f}."
    if limits:
        peaks += (
            f" Peaks: {limits['gflops']:.0f} GFLOP/s, {limits['shader_gbytes']:.1f} GB/s by a "
            f"shader, {limits['gbytes']:.1f} GB/s by the driver's copy; a dispatch "
            f"{1e6 * limits['dispatch']:.0f} us, a submit {1e6 * limits['submit']:.0f} us."
        )
    return f"{comparison.device}, {comparison.date}: {versions}.{peaks}"


def _speed(comparison: Comparison) -> Sheet:
    engines = {VKNN: "vknn", NCNN: "ncnn", NCNN_DEFAULT: "ncnn default", NCNN_CPU: "ncnn CPU"}
    heads = ["network"]
    for name in engines.values():
        heads += [f"{name} min", "median"]
    heads += ["ratio min", "ratio median", "outputs differ"]
    rows = []
    for n in comparison.networks:
        row = [n.name]
        for engine in engines:
            times = n.runs.get(engine)
            row += [_ms(min(times)), _ms(statistics.median(times))] if times else ["", ""]
        row += [_ratio(n.least_ratio), _ratio(n.median_ratio)]
        rows.append([*row, "" if n.difference is None else f"{n.difference:.0e}"])
    least, median = comparison.means()
    blanks = [""] * (2 * len(engines))
    rows.append(["geometric mean", *blanks, _ratio(least), _ratio(median), ""])
    return Sheet("runs, ms; ratio: ncnn (Vulkan, 32-bit floats) over vknn", heads, rows)


def _cold(networks: Sequence[Network]) -> Sheet:
    heads = ["network"]
    for state in (EMPTY, WARM):
        heads += [f"vknn, {state} caches", "ncnn", "share"]
    rows = []
    for n in networks:
        row = [n.name]
        for state in (EMPTY, WARM):
            times = n.cold.get(state, {})
            row += [_ms(min(t)) if (t := times.get(e)) else "" for e in (VKNN, NCNN)]
            row.append(_ratio(n.cold_share(state)))
        rows.append(row)
    return Sheet("from the files to the first answer, ms; share: vknn over ncnn", heads, rows)


def _memory(networks: Sequence[Network]) -> Sheet:
    heads = ["network", "vknn device", "ncnn device", "share", "vknn RSS", "ncnn RSS"]
    rows = [
        [
            n.name,
            *(_mib(n.memory.get(e)) for e in (VKNN, NCNN)),
            _ratio(n.memory_share),
            *(_mib(n.rss.get(e)) for e in (VKNN, NCNN)),
        ]
        for n in networks
    ]
    return Sheet("peak memory, MiB", heads, rows)


def _kernels(name: str, kernels: Sequence[Kernel]) -> Sheet:
    heads = ["kernel", "dispatches", "ms", "share", "GFLOP/s", "GB/s", "of the limit"]
    rows = [
        [
            k.name,
            str(k.dispatches),
            _ms(k.seconds),
            f"{k.share:.0%}",
            f"{k.gflops:.1f}" if k.flops else "",
            f"{k.gbytes:.1f}" if k.nbytes else "",
            f"{k.of_limit:.0%}" if k.ideal else "",
        ]
        for k in kernels
    ]
    return Sheet(f"kernels of {name}", heads, rows)


def _all_kernels(networks: Sequence[Network]) -> Sheet:
    """Sums over the networks; the share is of all their time."""
    grouped: dict[str, list[Kernel]] = {}
    for network in networks:
        for kernel in network.kernels:
            grouped.setdefault(kernel.name, []).append(kernel)
    total = sum(k.seconds for kernels in grouped.values() for k in kernels) or 1.0
    sums = [
        Kernel(
            name=name,
            dispatches=sum(k.dispatches for k in each),
            seconds=(seconds := sum(k.seconds for k in each)),
            share=seconds / total,
            flops=sum(k.flops for k in each),
            nbytes=sum(k.nbytes for k in each),
            ideal=sum(k.ideal for k in each),
        )
        for name, each in grouped.items()
    ]
    sheet = _kernels("", sorted(sums, key=lambda k: -k.seconds))
    return Sheet("kernels over all networks", sheet.heads, sheet.rows)


def _goals(comparison: Comparison) -> Sheet:
    words = {True: "yes", False: "NO", None: "?"}
    rows = [[g.text, g.found, words[g.ok]] for g in comparison.goals()]
    return Sheet("goals", ["goal", "found", "reached"], rows, text=3)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


def _mib(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes / 2**20:.1f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
