"""Labels: names of classes, fitted to the classes that a network counts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from vknn.answers.fields import MAX_ITEMS
from vknn.errors import VknnError, naming
from vknn.json_file import MAX_BYTES, read_text

#: Lines of lists that name no class, in lower case: COCO's lists leave numbers out so.
_GAPS = ("", "n/a", "???")


class Labels:
    """Names of classes: one list for all outputs, or a list for each output."""

    def __init__(self, names: Sequence[str | None] | Mapping[str, Sequence[str]] = ()) -> None:
        self._names = names

    def __bool__(self) -> bool:
        return bool(self._names)

    def fitted(self, count: int, output: str = "", background: int | None = None) -> Labels:
        """The names of the ``count`` classes of an output.

        Of a list that does not have as many, lines that name no class are left out, or a first
        line "background", where that makes it fit; and a ``background`` that it lacks is put in.
        A list that fits in no way is taken as it is, with a warning.
        """
        names = list(self._of(output))
        real = [name for name in names if not _is_gap(name)]
        if not names or len(names) == count:
            return Labels(names)
        if background is not None and count - 1 in (len(names), len(real)):
            kept = names if len(names) == count - 1 else real
            return Labels([*kept[:background], None, *kept[background:]])
        if len(real) == count:
            return Labels(real)
        if len(names) == count + 1 and str(names[0]).lower() == "background":
            return Labels(names[1:])
        text = f"there are {len(names)} labels, and the network has {count} classes"
        if len(names) == count - 1:
            text += ': where class 0 is none, the list needs a first line "background"'
        warnings.warn(text, RuntimeWarning, stacklevel=1)  # one place: it is told once
        return Labels(names)

    def of(self, number: int, output: str = "") -> str | None:
        """The name of a class of an output, or None."""
        known = self._of(output)
        if not 0 <= number < len(known) or _is_gap(known[number]):
            return None
        return known[number]

    def _of(self, output: str) -> Sequence[str | None]:
        names = self._names
        return names.get(output, ()) if isinstance(names, Mapping) else names


def _is_gap(name: str | None) -> bool:
    return name is None or name.lower() in _GAPS


def read_labels(path: Path) -> list[str]:
    """The labels of a text file, one a line. Raises VknnError."""
    lines = [line.strip() for line in read_text(path, MAX_BYTES).splitlines()]
    with naming(str(path)):
        if len(lines) > MAX_ITEMS:
            raise VknnError(f"{path} has {len(lines)} lines; at most {MAX_ITEMS} labels are read")
    return lines
