"""GLSL sources: where they lie, their includes, the variants compiled ahead of time.

An include is written into the text where it stands, with line directives around it, so that the
compiler sees one text and a hash of that text covers all that a module is made of.

Like ``words``, ``cooperative``, ``shaderc`` and ``modules``, this module also runs while the
package is built, before its dependencies are installed: it imports nothing that needs these.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from vknn.errors import ShaderError

PACKAGE = Path(__file__).resolve().parents[2]
#: Package data of an installed vknn: the sources and the modules compiled from them.
INSTALLED = PACKAGE / "_spirv"

Variant = tuple[tuple[str, str], ...]

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"\s*$')
#: Strings, in which marks of comments are none, and comments.
_STRING_OR_COMMENT = re.compile(r'"[^"\n]*"?|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LEFT = re.compile(r"^\s*#\s*include\b", re.MULTILINE)
_VERSION = re.compile(r"^\s*#\s*version\b")
_PRAGMA = re.compile(r"^\s*#\s*pragma\s+vknn\b(.*)$")
_AXIS = re.compile(r"^([A-Za-z_]\w*)=([\w.-]+(?:,[\w.-]+)*)$")
#: Defines of variants that multiply in float16.
_FLOAT16_ARITHMETIC = frozenset(("HALF_SUMS", "COOPERATIVE", "DOTS"))
_LINE_EXTENSION = "#extension GL_GOOGLE_cpp_style_line_directive : enable"


def checkout_root() -> Path | None:
    """The shaders/ folder of the checkout that vknn is imported from; None once installed."""
    top = PACKAGE.parents[1]
    is_checkout = PACKAGE.parent.name == "src" and (top / "pyproject.toml").is_file()
    return top / "shaders" if is_checkout and (top / "shaders").is_dir() else None


def source_root() -> Path:
    """Folder of the shader sources: the checkout's shaders/ or the package's copy of it."""
    return checkout_root() or INSTALLED / "sources"


def kernels(root: Path) -> list[str]:
    """All kernels under ``root``, as "<family>/<name>", sorted."""
    return sorted(p.relative_to(root).with_suffix("").as_posix() for p in root.rglob("*.comp"))


def read_kernel(root: Path, kernel: str) -> str:
    """The text of a kernel; raises :class:`ShaderError` where there is none."""
    path = root / f"{kernel}.comp"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ShaderError(f"there is no shader {kernel!r} ({path} does not exist)") from None


def expand(text: str, name: str, root: Path, files: set[str] | None = None) -> str:
    """``text`` with every ``#include "x"`` replaced by the file ``root``/x, and no vknn pragma.

    The names of these files are added to ``files``.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ShaderError(f"{name}: this is no text: {error}") from None
    lines = _expand(text, name, root, (), set() if files is None else files)
    version = next((i for i, line in enumerate(lines) if _VERSION.match(line)), None)
    if version is None:
        raise ShaderError(f"{name}: has no #version line")
    lines[version + 1 : version + 1] = [_LINE_EXTENSION, f'#line {version + 2} "{name}"']
    expanded = "\n".join(lines) + "\n"
    _check_no_include(expanded, name)
    return expanded


def _check_no_include(expanded: str, name: str) -> None:
    """Check that no directive is left that the compiler would follow to any file at all.

    Comments and continued lines may stand in one, which the compiler reads through.
    """

    def without_comment(found: re.Match[str]) -> str:
        """A space for a comment; a string as it is, whose end must be plain to all compilers."""
        if not found[0].startswith('"'):
            return " "
        if any(mark in found[0] for mark in ("\\", "/*", "*/")):
            raise ShaderError(f"{name}: no string may have a backslash or a comment's mark in it")
        return found[0]

    if _LEFT.search(_STRING_OR_COMMENT.sub(without_comment, expanded.replace("\\\n", ""))):
        raise ShaderError(f'{name}: an include must be a line of its own: #include "file"')


def with_defines(expanded: str, defines: Mapping[str, str]) -> str:
    """``expanded`` (of :func:`expand`) with the defines written behind its #version line."""
    head, line, rest = expanded.partition(_LINE_EXTENSION + "\n")
    return head + line + "".join(f"#define {k} {v}\n" for k, v in defines.items()) + rest


def _expand(text: str, name: str, root: Path, above: tuple[str, ...], files: set[str]) -> list[str]:
    if name in above:
        raise ShaderError(f"{name}: includes itself through {' -> '.join((*above, name))}")
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if "#" not in line:
            lines.append(line)
            continue
        include = _INCLUDE.match(line)
        if include is None:
            lines.append("" if _PRAGMA.match(line) else line)
            continue
        target = include[1]
        inner = _read_include(root, target, f"{name}:{number}")
        files.add(target)
        lines.append(f'#line 1 "{target}"')
        lines += _expand(inner, target, root, (*above, name), files)
        lines.append(f'#line {number + 1} "{name}"')
    return lines


def _read_include(root: Path, target: str, place: str) -> str:
    if ".." in target.split("/") or target.startswith("/") or "\\" in target or ":" in target:
        raise ShaderError(f"{place}: include {target!r} lies outside {root}")
    try:
        with open(f"{root}/{target}", encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):  # ValueError: a name, or contents, that are no text
        raise ShaderError(f"{place}: include {target!r} is not in {root}") from None


def variants(text: str, name: str) -> list[Variant]:
    """The variants that a kernel lists, each as sorted (define, value) pairs.

    ``#pragma vknn variants A=0,1 B=x,y`` lists the product; several such lines, their union; none,
    the one variant without defines. Each variant for tensors of float16 that computes in float32
    has a twin with BF16=1 for tensors of bfloat16, which no line lists: only what common/half.glsl
    makes of it differs.
    """
    found: dict[Variant, None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        pragma = _PRAGMA.match(line) if "#" in line else None
        if pragma is not None:
            found.update(dict.fromkeys(_product(pragma[1].split(), f"{name}:{number}")))
    twins = [_with_bfloat16(variant) for variant in found if _takes_bfloat16(variant)]
    return list(dict.fromkeys([*found, *twins])) or [()]


def _takes_bfloat16(variant: Variant) -> bool:
    names = dict(variant)
    return "HALF" in names and not names.keys() & _FLOAT16_ARITHMETIC


def _with_bfloat16(variant: Variant) -> Variant:
    return tuple(sorted(dict(variant, BF16="1").items()))


def _product(words: list[str], place: str) -> list[Variant]:
    axes = [_AXIS.match(word) for word in words[1:]]
    if words[:1] != ["variants"] or not axes or None in axes:
        raise ShaderError(f"{place}: expected '#pragma vknn variants NAME=value,value ...'")
    pairs = [[(a[1], value) for value in a[2].split(",")] for a in axes if a is not None]
    return [tuple(sorted(choice)) for choice in itertools.product(*pairs)]


def check_variant(listed: Collection[Variant], kernel: str, variant: Variant) -> None:
    """Check that the variant is one of a kernel's; raises :class:`ShaderError` if not."""
    if tuple(sorted(variant)) in listed:
        return
    asked = " ".join(f"{k}={v}" for k, v in variant) or "without defines"
    raise ShaderError(
        f"shader {kernel!r} has no variant {asked}: its '#pragma vknn variants' line lists others"
    )


def content_hash(expanded: str, defines: Mapping[str, str], extra: str = "") -> str:
    """Hash of all that a module is made from; ``extra``: the compiler, where it matters."""
    return _content_hash(expanded, tuple(sorted(defines.items())), extra)


@functools.lru_cache(maxsize=1024)
def _content_hash(expanded: str, defines: Variant, extra: str) -> str:
    parts = [expanded, *(f"{k}={v}" for k, v in defines), extra]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
