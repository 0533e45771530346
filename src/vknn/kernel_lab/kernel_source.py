"""GLSL of a lab: the kernel and the files that it includes, below glsl/, and its compilation."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vknn.errors import ShaderError, VknnError
from vknn.kernel_lab.arrays import regular_file
from vknn.kernel_lab.declarations import Declarations, declarations
from vknn.runtime.spirv import cooperative, glsl, shaderc
from vknn.runtime.spirv.shaderc import ShaderJob

FOLDER = "glsl"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"\s*$')
#: Bytes of one file, and of all that the compiler sees: the largest of vknn's has 0.1 MB.
MAX_FILE, MAX_TEXT = 1 << 20, 1 << 22
#: Modules that are kept: versions and variants.
MOST_MODULES = 64
_PRAGMA = re.compile(r"^\s*#\s*pragma\s+vknn\s+variants\s+(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel: its module, and what that asks of its host."""

    spirv: bytes
    declared: Declarations


@dataclass(frozen=True)
class KernelSource:
    """Source of a kernel: ``texts`` by path below glsl/, the kernel's own first."""

    kernel: str
    texts: Mapping[str, str]

    @property
    def main(self) -> str:
        """The path of the kernel's own file."""
        return f"{self.kernel}.comp"

    def macros(self, variant: Mapping[str, str]) -> list[str]:
        """Names of the macros that choose a variant, of this lab's and of those in the pragmas."""
        listed = " ".join(_PRAGMA.findall(self.texts[self.main])).split()
        names = [word.partition("=")[0] for word in listed]
        return list(dict.fromkeys([*variant, *names]))

    def compile(self, root: Path, variant: Mapping[str, str]) -> CompiledKernel:
        """The module of a variant, of the files below ``root``; each is compiled once.

        Raises ShaderError with the compiler's message, which names file and line.
        """
        try:
            expanded = glsl.expand(self.texts[self.main], self.main, root)
        except RecursionError:
            raise ShaderError(f"{self.main}: includes are nested too deeply") from None
        return _compiled(expanded, self.main, tuple(sorted(variant.items())))


@functools.lru_cache(maxsize=MOST_MODULES)
def _compiled(expanded: str, name: str, variant: tuple[tuple[str, str], ...]) -> CompiledKernel:
    job = ShaderJob(expanded, name, dict(variant))
    spirv = cooperative.completed(shaderc.compiler().compile([job])[0])
    return CompiledKernel(spirv, declarations(spirv))


def read_source(folder: Path, kernel: str) -> KernelSource:
    """The source of a lab's kernel.

    Raises VknnError for files that are missing, links, no text or too large, alone or together.
    """
    texts: dict[str, str] = {}
    left = MAX_TEXT
    for path in _included(folder, f"{kernel}.comp", texts, ()):
        left -= len(texts[path])
        if left < 0:
            raise ShaderError(
                f"{folder / FOLDER}: the kernel with its includes has over {MAX_TEXT} characters"
            )
    return KernelSource(kernel, texts)


def _included(
    folder: Path, path: str, texts: dict[str, str], above: tuple[str, ...]
) -> Iterator[str]:
    """A file and all that it includes, each as often as the compiler sees it."""
    if path in above:
        raise ShaderError(f"{path}: includes itself through {' -> '.join((*above, path))}")
    if path not in texts:
        texts[path] = _read(folder, path)
    yield path
    for number, line in enumerate(texts[path].splitlines(), start=1):
        found = _INCLUDE.match(line)
        if found is None:
            continue
        target = found[1]
        if target.startswith("/") or "\\" in target or ":" in target or ".." in target.split("/"):
            raise ShaderError(f"{path}:{number}: include {target!r} lies outside {FOLDER}/")
        try:
            yield from _included(folder, target, texts, (*above, path))
        except FileNotFoundError as error:
            raise ShaderError(f"{path}:{number}: include {target!r}: {error}") from None


def _read(folder: Path, path: str) -> str:
    file = regular_file(folder, f"{FOLDER}/{path}")
    if file.stat().st_size > MAX_FILE:
        raise ShaderError(f"{file}: over {MAX_FILE} bytes")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ShaderError(f"{file}: this is no text: {error}") from None


def shipped_source(kernel: str, own: str | None) -> KernelSource:
    """The source of a kernel of vknn's, or of a user's own text, with the files it includes."""
    root = glsl.source_root()
    texts: dict[str, str] = {}
    main = f"{kernel}.comp"

    def add(path: str) -> None:
        if path in texts:
            return
        given = own if path == main and own is not None else None
        try:
            texts[path] = (root / path).read_text(encoding="utf-8") if given is None else given
        except OSError as error:
            raise VknnError(f"{root / path}: {error.strerror}") from error
        for line in texts[path].splitlines():
            found = _INCLUDE.match(line)
            if found is not None:
                add(found[1])

    add(main)
    return KernelSource(kernel, texts)
