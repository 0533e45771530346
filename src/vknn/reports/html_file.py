"""The HTML file of a report: markup, style, script and data in one text.

Whatever comes from a model file is untrusted. It is in the page only as JSON in a block that
browsers do not run, and as the title, escaped; the script puts it into the page as text. The
page's policy forbids everything that is not the page's own style and script, which it names by
their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from vknn.named_files import replacing
from vknn.reports.check import check_data
from vknn.reports.data import report_data

#: Parts of the script, in the order in which they are joined.
SCRIPTS = (
    *("base.js", "model.js", "chart.js", "rows.js", "table.js", "tree.js", "treemap.js"),
    *("icicle.js", "timeline.js", "roofline.js", "memory.js", "glsl.js", "source.js"),
    *("detail.js", "counters.js", "grid.js", "layers.js", "check.js", "main.js"),
)
#: Those of a comparison.
COMPARISON = ("base.js", "chart.js", "grid.js", "comparison.js")
#: Those of a cross-check alone.
CHECK = (
    *("base.js", "check_data.js", "chart.js", "grid.js", "layers.js", "check.js"),
    "check_page.js",
)
#: What would end a script block, or a line of a script, in some browser's eyes.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This report is drawn by a script of its own, and scripts are switched off.</noscript>
<div id="report"></div>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(document: Mapping[str, Any], verify: Mapping[str, Any] | None = None) -> str:
    """A profile as the text of an HTML file.

    Args:
        document: What a ``.vkprof`` file holds (docs/vkprof.md).
        verify: A cross-check of the same model, as ``vknn verify --json`` writes it.

    Raises:
        vknn.VknnError: A document is not what it should be, or they are of different models.
    """
    data = report_data(document, verify)
    return _assembled(f"{data['title']}: profile", data, SCRIPTS)


def comparison_page(document: Mapping[str, Any]) -> str:
    """A comparison of profiles, ``ProfileComparison.document()``, as the text of an HTML file."""
    title = f"{document['before']} and {document['after']}: comparison"
    return _assembled(title, document, COMPARISON)


def check_page(
    verify: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    tables: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """A cross-check as the text of an HTML file.

    Args:
        verify: What ``vknn verify --json`` writes, or another report
            (:func:`vknn.reports.check.check_data`).
        layers: The model's layers, as in a ``.vkprof`` file; none: there is no graph to draw.
        tables: Those of another report.
    """
    check = check_data(verify, layers, tables)
    return _assembled(f"{check['model']}: cross-check", {"check": check}, CHECK)


def _assembled(title: str, data: Mapping[str, Any], scripts: Sequence[str]) -> str:
    style = _part("page.css")
    script = "(() => {\n" + "\n".join(_part(name) for name in scripts) + "})();\n"
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=policy,
        title=html.escape(f"{title} by vknn"),
        style=style,
        script=script,
        data=embedded(data),
    )


def save(
    document: Mapping[str, Any],
    path: str | os.PathLike[str],
    verify: Mapping[str, Any] | None = None,
) -> None:
    """The text of :func:`page` written to a file, which is replaced as a whole."""
    text = page(document, verify)
    with replacing(path) as file:
        file.write(text.encode())


def embedded(data: Any) -> str:
    """JSON that may stand in a script block: nothing in it ends the block."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Halves of surrogate pairs are no UTF-8; browsers show them as this sign, too.
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode()


def _part(name: str) -> str:
    return resources.files("vknn.reports").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
