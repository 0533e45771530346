"""Adoption of a lab's GLSL: its difference from the kernel that vknn ships, and that applied.

The difference is shown and nothing written, unless that is asked for and vknn runs from a
checkout: an installed package's sources are held to the modules that were compiled from them, and a
changed one would only be refused.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from vknn.errors import VknnError
from vknn.kernel_lab.kernel_source import FOLDER
from vknn.kernel_lab.lab import Lab
from vknn.named_files import replacing
from vknn.runtime.spirv import glsl


@dataclass(frozen=True)
class Adoption:
    """A lab's GLSL beside the shipped one.

    Attributes:
        diff: The unified diff from the shipped files to the lab's; empty where they are the same.
        changed: Paths of the files below shaders/ that differ.
        moved: Those of them whose shipped text is not any more what the lab was extracted from.
        texts: The lab's text of each.
    """

    diff: str
    changed: tuple[str, ...]
    moved: tuple[str, ...]
    texts: dict[str, str]

    def apply(self) -> list[Path]:
        """The lab's files written over those of the checkout; gives their paths.

        Raises VknnError where vknn does not run from a checkout, and where a file was changed there
        since the extraction: that change would be lost.
        """
        root = glsl.checkout_root()
        if root is None:
            raise VknnError(
                "this vknn is an installed package, whose kernels are compiled already: apply the "
                "difference to a checkout"
            )
        if self.moved:
            raise VknnError(
                f"{root}: {', '.join(self.moved)} changed since the extraction, and that would be "
                "lost: merge the difference by hand"
            )
        for path in self.changed:
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as file:
                file.write(self.texts[path].encode())
        return [root / path for path in self.changed]


def adoption(lab: Lab) -> Adoption:
    """The difference of a lab's kernel from the shipped one.

    Raises VknnError for the kernel of a user's own layer, which vknn does not ship.
    """
    description = lab.description
    if description.own:
        file = lab.folder / FOLDER / f"{description.kernel}.comp"
        raise VknnError(
            f"{lab.folder}: the kernel is that of a layer of one's own, which vknn does not ship: "
            f"the text of {file} goes into its Shader(glsl=...)"
        )
    parts, changed, moved, texts = [], [], [], lab.source().texts
    for path, text in texts.items():
        shipped = _shipped(path)
        if shipped == text:
            continue
        changed.append(path)
        known = description.sources.get(path)
        same = known == hashlib.sha256((shipped or "").encode()).hexdigest()
        if not same and (shipped is not None or known is not None):
            moved.append(path)
        before, after = ((t or "").splitlines(keepends=True) for t in (shipped, text))
        names = ("/dev/null" if shipped is None else f"a/shaders/{path}", f"b/shaders/{path}")
        parts += [_ended(line) for line in difflib.unified_diff(before, after, *names)]
    return Adoption("".join(parts), tuple(changed), tuple(moved), dict(texts))


def _shipped(path: str) -> str | None:
    try:
        return (glsl.source_root() / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
