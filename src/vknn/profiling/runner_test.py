"""Answers of ``vknn-run --test --json``, about a bundle that ran elsewhere, a phone perhaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from vknn.errors import VknnError
from vknn.json_file import read_json
from vknn.printable import one_line
from vknn.profiling.runner_profile import ABOUT, MAX_BYTES
from vknn.profiling.schema import Wrong, count, flag, list_of, maybe, object_of, text

_DOCUMENT = object_of(
    **ABOUT,
    ok=flag,
    error=maybe(text),
    outputs=list_of(object_of(output=text, compared=flag)),
)
#: Fields of outputs that were compared; there are more where the numbers of elements are the same.
_COMPARED = object_of(wrong=count, elements=count)


def read_runner_test(path: Path) -> dict[str, Any] | None:
    """The document of such a file, checked; None where the JSON is something else.

    Raises:
        vknn.VknnError: It cannot be read, or is damaged.
    """
    document = read_json(path, MAX_BYTES)
    if not isinstance(document, dict) or not {"ok", "outputs"} <= document.keys():
        return None
    try:
        _DOCUMENT(document, "")
        for output in document["outputs"]:
            if output["compared"]:
                _COMPARED(output, output["output"])
    except Wrong as error:
        raise VknnError(f"{path}: no answer of vknn-run --test: {error}") from None
    return document


def runner_test_table(document: dict[str, Any], name: str) -> Table:
    """The outputs of such a document as a table; ``name``: the file's."""
    device = one_line(f"{document['device']} ({document['driver']})")
    about = one_line(f"{document['target']}, {document['shapes']}, {document['precision']}")
    table = Table(title=Text(f"{one_line(name)}: the example on {device}: {about}"))
    for column in ("output", "wrong", "elements", "largest difference", "allowed"):
        table.add_column(column, justify="left" if column == "output" else "right")
    for output in document["outputs"]:
        table.add_row(Text(one_line(output["output"])), *_cells(output))
    return table


def _cells(output: dict[str, Any]) -> list[str]:
    if not output["compared"]:
        return ["not compared", "", "", ""]
    cells = [f"{output['wrong']:,}", f"{output['elements']:,}"]
    if "expected" in output:
        return [*cells, one_line(f"{output['expected']} elements expected"), ""]
    allowed = f"{output.get('absolute')} + {output.get('relative')} of the value"
    return [*cells, one_line(str(output.get("max_abs"))), one_line(allowed)]
