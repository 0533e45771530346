"""Lab: one dispatch in a folder, opened: compiled, run, timed and checked without its model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from vknn.errors import VknnError
from vknn.kernel_lab.arrays import regular_file
from vknn.kernel_lab.description import LabDescription, read_description
from vknn.kernel_lab.sweep import Sweep, swept
from vknn.kernel_lab.workbench import DESCRIPTION, RUNS, Workbench

_MOST_JSON = 1 << 24


class Lab(Workbench):
    """A kernel's lab, made by :meth:`open` or :func:`vknn.kernel_lab.extract`.

    A context manager: the device that it runs on stays open until :meth:`close`. What is in the
    folder is not trusted: sizes, names, group counts and bindings are checked, nothing is
    unpickled. The shader itself runs on the device as it is.

    Attributes:
        folder: The folder.
        description: What lab.json says, a ``LabDescription``.
    """

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Lab:
        """The lab of a folder; its arrays are read when they are needed.

        Raises:
            vknn.VknnError: It has no lab.json, or one that says what cannot be.
        """
        return cls(Path(folder), described(Path(folder)))

    def sweep(
        self,
        axes: str | Mapping[str, Any],
        device: str = "auto",
        *,
        groups: str | None = None,
        push: Mapping[str, str] | None = None,
        runs: int = RUNS,
        tolerance: float | None = None,
    ) -> Sweep:
        """The kernel run for all combinations of values of its constants and macros.

        Args:
            axes: "LX=8,16,32 TILE=4x4,4x8", or a mapping of names to lists of values. LX, LY and LZ
                are the lanes of a workgroup.
            device: As for :class:`vknn.Session`.
            groups: Formula of the workgroups along x, y and z, in constants, macros, push constants
                and LX, LY, LZ: "ceil(total / LX), 1, 1". By default they follow LX, LY and LZ so
                that there are as many lanes as before, and nothing else.
            push: Formulas of push constants by name.
            runs: Timed runs of each combination.
            tolerance: As for :meth:`run`.

        Raises:
            vknn.VknnError: A name is not known (the text lists those that are), or a formula wrong.
        """
        return swept(self, axes, device, groups, push or {}, runs, tolerance)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def described(path: Path) -> LabDescription:
    """The description in a lab's folder. Raises VknnError as of :meth:`Lab.open`."""
    file = path / DESCRIPTION
    if not path.is_dir() or not file.exists():
        raise VknnError(
            f"{file}: there is no such file; `vknn kernel extract` writes a kernel's folder"
        )
    regular_file(path, DESCRIPTION)
    if file.stat().st_size > _MOST_JSON:
        raise VknnError(f"{file}: over {_MOST_JSON} bytes")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise VknnError(f"{file}: this is no JSON: {error}") from error
    return read_description(document, str(file))
