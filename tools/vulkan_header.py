#!/usr/bin/env python3
"""Generator of runner/headers/vulkan/vulkan_core.h, for builds without Vulkan's headers.

tools/vulkan_header.py           # writes it, of those that libvulkan-dev has
tools/vulkan_header.py --check   # exit status 1 where it is not up to date

It holds what runner/vknn_run.c names and what that is made of, in Khronos' own words and order;
of enumerations the values that are named alone.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.counting.layer import headers  # noqa: E402

OWN = ROOT / "runner" / "headers" / "vulkan" / "vulkan_core.h"
_NAME = re.compile(r"\b(?:VK_|Vk|PFN_vk)\w+")
#: Names of functions in the lists of vknn_run.c, which become types there.
_LISTED = re.compile(r"\bF\((\w+)\)")
_PART = re.compile(
    r"typedef (?P<kind>struct|union|enum) (?P<made>\w+) \{.*?\} \w+;"
    r"|typedef [^;{]*?\(VKAPI_PTR \*(?P<function>\w+)\)\([^;]*?\);"
    r"|typedef \w+ (?P<same>\w+);"
    r"|VK_DEFINE_(?:NON_DISPATCHABLE_)?HANDLE\((?P<handle>\w+)\)"
    r"|#define (?P<macro>VK_\w+)(?:\(.*?\))?(?: .*?)?(?:\\\n.*?)*(?=\n)",
    re.DOTALL,
)
_START = """\
/* Copyright 2015-2022 The Khronos Group Inc.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of Vulkan-Headers {version}, what vknn_run.c uses, for builds without them.
 * Made by tools/vulkan_header.py. */
#ifndef VULKAN_CORE_H_
#define VULKAN_CORE_H_ 1

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define VKAPI_ATTR
#define VKAPI_CALL __stdcall
#define VKAPI_PTR VKAPI_CALL
#elif defined(__ANDROID__) && defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(__ARM_32BIT_STATE)
#define VKAPI_ATTR __attribute__((pcs("aapcs-vfp")))
#define VKAPI_CALL
#define VKAPI_PTR VKAPI_ATTR
#else
#define VKAPI_ATTR
#define VKAPI_CALL
#define VKAPI_PTR
#endif

#define VK_DEFINE_HANDLE(object) typedef struct object##_T *object;
#if UINTPTR_MAX == UINT64_MAX
#define VK_NULL_HANDLE ((void *)0)
#define VK_DEFINE_NON_DISPATCHABLE_HANDLE(object) typedef struct object##_T *object;
#else
#define VK_NULL_HANDLE 0ULL
#define VK_DEFINE_NON_DISPATCHABLE_HANDLE(object) typedef uint64_t object;
#endif
"""


def header(whole: str, source: str) -> str:
    """The part of the text of vulkan_core.h that a C source uses."""
    whole = re.sub(r"/\*.*?\*/|//[^\n]*", "", whole, flags=re.DOTALL)
    parts = {name: match for name, match in _parts(whole) if name not in _START}
    used = set(_NAME.findall(source))
    used |= {f"PFN_vk{name}" for name in _LISTED.findall(source)} | {"PFN_vkGetInstanceProcAddr"}
    values = {v: name for name, m in parts.items() if m["kind"] == "enum" for v in _values(m[0])}
    texts: dict[str, str] = {}
    while left := [n for n in used if values.get(n, n) in parts and n not in texts]:
        for name in left:
            of = values.get(name, name)
            texts[name] = "" if name in values else parts[of][0]
            is_enum = parts[of]["kind"] == "enum"
            made_of = _values(parts[of][0]).get(name, "") if is_enum else texts[name]
            used |= {of, *_NAME.findall(made_of)}
    lines = [
        _enumeration(name, match[0], used) if match["kind"] == "enum" else _tidy(match[0])
        for name, match in parts.items()
        if name in used
    ]
    version = re.search(r"#define VK_HEADER_VERSION (\d+)", whole)
    assert version is not None
    return (
        _START.replace("{version}", f"1.3.{version[1]}") + "\n" + "\n".join(lines) + "\n\n#endif\n"
    )


def _parts(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for match in _PART.finditer(text):
        yield next(filter(None, match.group("made", "function", "same", "handle", "macro"))), match


def _values(enumeration: str) -> dict[str, str]:
    """What the values of an enumeration are, by name."""
    return dict(re.findall(r"^\s*(VK_\w+) = ([^,\n]+)", enumeration, re.MULTILINE))


def _enumeration(name: str, text: str, used: set[str]) -> str:
    values = [f"{v} = {is_}" for v, is_ in _values(text).items() if v in used or "_MAX_ENUM" in v]
    whole = f"typedef enum {name} {{ {', '.join(values)} }} {name};"
    return "\n".join(textwrap.wrap(whole, 110, subsequent_indent="    "))


def _tidy(text: str) -> str:
    """A part in less room: one blank between words, a line for each field."""
    return "\n".join(
        re.sub(r"(?<=\S)\s+", " ", line.rstrip()) for line in text.splitlines() if line.strip()
    )


def main() -> int:
    folder = ROOT / ".cache" / "vulkan_layer"
    folder.mkdir(parents=True, exist_ok=True)
    whole = (headers(folder) / "vulkan" / "vulkan_core.h").read_text(encoding="utf-8")
    wanted = header(whole, (ROOT / "runner" / "vknn_run.c").read_text(encoding="utf-8"))
    if "--check" in sys.argv[1:]:
        stale = not OWN.exists() or OWN.read_text(encoding="utf-8") != wanted
        if stale:
            print(f"{OWN.relative_to(ROOT)} is not up to date: run tools/vulkan_header.py")
        return int(stale)
    OWN.parent.mkdir(parents=True, exist_ok=True)
    OWN.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
