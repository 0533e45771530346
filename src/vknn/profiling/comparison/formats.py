"""A comparison for continuous integration: Markdown and JUnit's XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import escape

from vknn.profiling.comparison.result import SLOWER, ProfileComparison, Row, verdict
from vknn.profiling.labels import shortened

#: Characters that mean something in Markdown.
_MARKS = re.compile(r"([\\`*_~|\[\]])")


def markdown(comparison: ProfileComparison, limit: int = 50) -> str:
    """The comparison as Markdown: the verdict, and the rows with the largest differences.

    ``limit``: the most rows.
    """
    rows = sorted(comparison.rows, key=lambda r: -abs(r.difference))[:limit]
    left = len(comparison.rows) - len(rows)
    lines = [
        f"**{comparison.whole.word}**: {_plain(comparison.before)} → {_plain(comparison.after)}",
        "",
        *(f"- {_plain(line)}" for line in comparison.summary()),
        "",
        "| layers | before us | after us | ratio | 95 % interval | p | word |",
        "|---|--:|--:|--:|--:|--:|---|",
        _line("the whole", comparison.whole),
        *(_line(_plain(row.name), row) for row in rows),
    ]
    if left:
        lines += ["", f"{left} rows with smaller differences are left out."]
    return "\n".join(lines) + "\n"


def junit(comparison: ProfileComparison, over: float = 0.0) -> str:
    """The comparison as a JUnit report: a test for the whole and each row.

    Those that are slower by more than ``over`` (0.05: 5 %) have failed.
    """
    failed = {id(row) for row in comparison.slowdowns(over)}
    everything = [("the whole", comparison.whole), *((r.name, r) for r in comparison.rows)]
    title = f"vknn compare: {comparison.before} -> {comparison.after}"
    counts = {"tests": str(len(everything)), "failures": str(len(failed)), "errors": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": title, **counts})
    for name, row in everything:
        seconds = f"{row.after or 0.0:.9f}"
        case = ET.SubElement(
            suite, "testcase", {"classname": "vknn.compare", "name": name, "time": seconds}
        )
        if id(row) in failed:
            ET.SubElement(case, "failure", {"message": f"{SLOWER}: {verdict(row)}"})
        ET.SubElement(case, "system-out").text = f"{row.word}: {verdict(row)}"
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _line(name: str, row: Row) -> str:
    times = ("" if t is None else f"{1e6 * t:,.1f}" for t in (row.before, row.after))
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    span = "" if row.low is None else f"{row.low:.3f} to {row.high:.3f}"
    p = "" if row.ratio is None else f"{row.p:.2g}"
    return f"| {' | '.join([name, *times, ratio, span, p, row.word])} |"


def _plain(text: str) -> str:
    """Text without meaning for Markdown and HTML."""
    return _MARKS.sub(r"\\\1", escape(shortened(text, 400), quote=False))
