"""Writer of the table of kernel parameters, src/vknn/lowering/generated/kernel_parameters.py.

Push constants and specialization constants of every kernel under shaders/, read from its compiled
modules. Needs a GLSL compiler (libshaderc or glslc).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "src") not in sys.path:
    sys.path.insert(0, str(ROOT / "src"))

from vknn.errors import ShaderError  # noqa: E402
from vknn.runtime.spirv import glsl, modules  # noqa: E402
from vknn.runtime.spirv.reflection import Interface, interface  # noqa: E402

TARGET = ROOT / "src" / "vknn" / "lowering" / "generated" / "kernel_parameters.py"
#: Constants with these ids and beyond are declared by shaders/common; kernels need not set them.
FIRST_COMMON_ID = 98
WIDTH = 96

HEADING = '''"""Push constants and specialization constants by kernel.

Written by tools/kernel_parameters.py. Each entry: the members of the push-constant block in order
("[n]" for arrays, ":float" for floats, ":either" where it depends on the variant), and the
specialization constants as NAME=id; "?" marks those that not every variant declares or that
shaders/common declares.
"""

KERNELS: dict[str, tuple[str, str]] = {
'''


def variants_to_read(kernel: str, text: str) -> list[glsl.Variant]:
    """Variants of a kernel that may differ in parameters: one of each way to read inputs."""
    found: dict[glsl.Variant, glsl.Variant] = {}
    for variant in glsl.variants(text, kernel):
        apart = tuple(pair for pair in variant if pair[0] != "ACCESS")
        found.setdefault(apart, variant)
    return list(found.values())


def kernel_interfaces(kernel: str) -> list[Interface]:
    """The interface of each variant of a kernel that matters."""
    text = glsl.read_kernel(glsl.source_root(), kernel)
    return [interface(modules.spirv(kernel, v)) for v in variants_to_read(kernel, text)]


def entry(kernel: str, interfaces: Sequence[Interface]) -> tuple[list[str], list[str]]:
    """A kernel's push constants and specialization constants, as the table writes them."""
    blocks = {i.push for i in interfaces if i.push}
    if len({tuple((m.name, m.offset, m.count) for m in block) for block in blocks}) > 1:
        raise ShaderError(f"{kernel}: its variants have different push-constant blocks")
    push, end = [], 0
    for members in zip(*blocks, strict=True):
        member, types = members[0], {m.type for m in members}
        if member.offset != end:
            raise ShaderError(f"{kernel}: push constant {member.name} is not at byte {end}")
        array = "" if member.count is None else f"[{member.count}]"
        type_ = ":either" if len(types) > 1 else ":float" if "float" in types else ""
        push.append(member.name + array + type_)
        end += 4 * (member.count or 1)
    return push, _constants(kernel, interfaces)


def _constants(kernel: str, interfaces: Sequence[Interface]) -> list[str]:
    found = {name: c for i in interfaces for name, c in i.constants.items()}
    words = []
    for name, constant in sorted(found.items(), key=lambda item: item[1].id):
        if any(i.constants.get(name, constant) != constant for i in interfaces):
            raise ShaderError(f"{kernel}: its variants declare {name} differently")
        everywhere = all(name in i.constants for i in interfaces)
        optional = "" if everywhere and constant.id < FIRST_COMMON_ID else "?"
        type_ = ":float" if constant.type == "float" else ""
        words.append(f"{name}{type_}{optional}={constant.id}")
    return words


def module_text() -> str:
    """The generated module."""
    names = glsl.kernels(glsl.source_root())
    with ThreadPoolExecutor(2) as executor:
        read = list(executor.map(kernel_interfaces, names))
    lines = [HEADING.rstrip("\n")]
    for kernel, interfaces in zip(names, read, strict=True):
        push, constants = entry(kernel, interfaces)
        lines += [f'    "{kernel}": (', *_strings(push), *_strings(constants), "    ),"]
    return "\n".join([*lines, "}", ""])


def _strings(words: Iterable[str]) -> list[str]:
    """Words as lines of a string literal in parentheses-free concatenation, then a comma."""
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) + 1 > WIDTH - 12:
            lines.append(line + " ")
            line = ""
        line = f"{line} {word}" if line else word
    lines.append(line)
    quoted = [f'        "{text}"' for text in lines]
    return [*quoted[:-1], quoted[-1] + ","]


def main() -> int:
    from pages import main as write

    return write(TARGET, "tools/kernel_parameters.py", module_text)


if __name__ == "__main__":
    sys.exit(main())
