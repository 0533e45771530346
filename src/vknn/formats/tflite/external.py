"""External buffers: constants in files beside the model, each file a group of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vknn.formats.files_beside import BadLocation, FilesBeside
from vknn.formats.tflite.verifier import Damaged


class ExternalBuffers:
    """The external buffers of a model: ``root`` is its verified Model table, ``file`` its path.

    Raises Damaged for ids that are 0 or come twice, and for groups that are not there.
    """

    def __init__(self, root: Any, file: str | None) -> None:
        self._files = FilesBeside(None if file is None else Path(file))
        groups = root.ExternalBufferGroupsLength()
        self._names = [_text(root.ExternalBufferGroups(i).Name()) for i in range(groups)]
        self._tables: dict[int, Any] = {}
        for place in range(root.ExternalBuffersLength()):
            table = root.ExternalBuffers(place)
            number, position = table.Id(), table._tab.Pos
            if number == 0 or number in self._tables:
                problem = "0, which stands for none" if number == 0 else f"{number} once more"
                raise Damaged(f"external buffer {place} has the id {problem}", position)
            if table.Group() >= groups:
                raise Damaged(
                    f"external buffer {number} names group {table.Group()} of {groups}", position
                )
            self._tables[number] = table

    def part(self, number: int, what: str, position: int) -> memoryview:
        """The bytes of a tensor, which errors call ``what``. Raises Damaged."""
        table = self._tables.get(number)
        if table is None:
            raise Damaged(
                f"{what} names the external buffer {number}, which is not there", position
            )
        if packing := _text(table.Packing()):
            raise Damaged(
                f"{what} lies outside in the packing {packing[:40]!r}, which vknn does not know",
                position,
            )
        name = self._names[table.Group()]
        try:
            data = self._files[self._files.mapped(name)]
        except BadLocation as problem:
            raise Damaged(f"{what}: {problem}", position) from None
        start, size = table.Offset(), table.Length()
        if start + size > len(data):
            raise Damaged(
                f"{what}: {size} bytes at {start} do not lie inside {name!r}, which has "
                f"{len(data)} (it is cut off, or that of another model)",
                position,
            )
        return data[start : start + size]


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "surrogateescape")
