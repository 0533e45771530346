"""Machine code of AMD's GPUs as RADV prints it: instructions, their costs, and inner loops.

Names: AMD, "RDNA Instruction Set Architecture" 1 to 4, and "Vega Instruction Set Architecture". A
block begins with "BB3:", an instruction stands on a line of its own, its encoding behind ";".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal

Unit = Literal["vector", "scalar", "branch", "shared", "memory", "constant", "wait", "free"]

#: The key of the text among the driver's.
FORM: Final = "Assembly"
# Instructions that no unit spends a cycle on, or that stand for hints.
_FREE: Final = ("s_delay_alu", "s_clause", "s_wait_alu", "s_waitcnt_depctr", "s_nop", "s_endpgm")
_WAITS: Final = ("s_waitcnt", "s_wait_")
_CONSTANT: Final = ("s_load", "s_buffer_load", "s_scratch_load")
_SHARED: Final = ("ds_",)
_MEMORY: Final = ("buffer_", "tbuffer_", "global_", "image_", "flat_", "scratch_")
#: A quarter of the rate: 32-bit integer products, and what the unit for functions computes.
_QUARTER: Final = re.compile(
    r"v_(mul_(lo|hi)_[ui]32|mad_[ui]64|(s_)?(rcp|rsq|sqrt|exp|log|sin|cos)_)"
)
_DOUBLE: Final = re.compile(r"_f64(_|$)")
_MULTIPLY_ADD: Final = re.compile(
    r"v_(fma|fmac|fmaak|fmamk|mac|mad|madak|madmk)_(f32|f16|legacy_f32)|v_(fma|mad)_mix"
)
_DUAL: Final = re.compile(r"v_dual_(fmac|fmaak|fmamk)_f32")
#: Multiply-adds of a lane, by what the name begins with.
_SEVERAL: Final = (("v_pk_fma", 2), ("v_dot8", 8), ("v_dot4", 4), ("v_dot2", 2), ("v_pk_mad", 2))
_SIZES: Final = {
    "b512": 64,
    "b256": 32,
    "b128": 16,
    "b96": 12,
    "b64": 8,
    "b32": 4,
    "b16": 2,
    "b8": 1,
    "dword": 4,
    "short": 2,
    "ushort": 2,
    "sshort": 2,
    "u16": 2,
    "i16": 2,
    "f16": 2,
    "byte": 1,
    "ubyte": 1,
    "sbyte": 1,
    "u8": 1,
    "i8": 1,
}
_REGISTER: Final = re.compile(r"\b([vs])(?:(\d+)(?:\.[lh])?\b|\[(\d+):(\d+)\])")
_BRANCH: Final = re.compile(r"s_c?branch\w*\s+BB(\d+)")
_COUNTER: Final = re.compile(r"(vm|lgkm)cnt\((\d+)\)")
_NEW_WAIT: Final = re.compile(r"s_wait_(\w+)\s+(0x[0-9a-f]+|\d+)")
#: Waits of RDNA 4 and which results they wait for.
_NEW_COUNTERS: Final = {"loadcnt": "memory", "dscnt": "shared", "kmcnt": "constant"}
#: Products of 16x16x16 by a wave.
_MATRIX_MULTIPLY_ADDS: Final = 16 * 16 * 16
#: Cycles of one by generation, of waves of 32 and of 64 lanes: 256 and 512 multiply-adds of float16
#: a cycle and compute unit, of which half are a SIMD's (AMD Matrix Instruction Calculator, RDNA 3
#: and 4; gpuopen.com, "How to accelerate AI applications on RDNA 3 using WMMA").
_MATRIX_CYCLES: Final = {3: 32, 4: 16}


@dataclass(frozen=True)
class AsmLine:
    """An instruction of machine code."""

    text: str

    @cached_property
    def name(self) -> str:
        return self.text.split()[0]

    @cached_property
    def unit(self) -> Unit:
        """Unit that executes it."""
        name = self.name
        for prefixes, unit in _UNITS:
            if name.startswith(prefixes):
                return unit
        return "free"

    @cached_property
    def registers(self) -> tuple[str, ...]:
        """Registers that it names, the destination first."""
        found: list[str] = []
        for kind, one, first, last in _REGISTER.findall(self.text):
            numbers = [int(one)] if one else range(int(first), int(last) + 1)
            found += [f"{kind}{number}" for number in numbers]
        return tuple(found)

    @cached_property
    def destinations(self) -> tuple[str, ...]:
        """Registers that it writes."""
        if "store" in self.name or self.name.startswith("s_cmp"):
            return ()
        operands = self.text[len(self.name) :].split(",")[0]
        return AsmLine(f"{self.name} {operands}").registers

    @cached_property
    def nbytes(self) -> int:
        """Bytes of a lane that a memory or shared instruction moves."""
        parts = self.name.replace("_2addr", "").split("_")
        twice = 2 if "2addr" in self.name or "read2" in self.name or "write2" in self.name else 1
        for part in reversed(parts):
            if part in _SIZES:
                return twice * _SIZES[part]
            if part.startswith("dwordx"):
                return 4 * int(part[6:])
            if re.fullmatch(r"x+y?z?w?", part):
                return 4 * len(part)
        return 4 * twice

    def cycles(self, wave: int, generation: int, lanes: int = 32) -> float:
        """Cycles that a vector instruction keeps a SIMD of so many lanes busy."""
        if self.name.startswith(("v_wmma", "v_swmmac")):
            return _MATRIX_CYCLES.get(generation, 32)
        return self._passes * wave / lanes

    @cached_property
    def _passes(self) -> int:
        """How often it goes through the lanes of a SIMD."""
        if _QUARTER.match(self.name):
            return 4
        return 16 if _DOUBLE.search(self.name) else 1

    def multiply_adds(self, wave: int) -> float:
        """Multiply-adds of a lane."""
        if self.name.startswith(("v_wmma", "v_swmmac")):
            return _MATRIX_MULTIPLY_ADDS / wave
        return self._lane_multiply_adds

    @cached_property
    def _lane_multiply_adds(self) -> float:
        if self.name.startswith("v_dual"):
            return len(_DUAL.findall(self.text))
        for prefix, count in _SEVERAL:
            if self.name.startswith(prefix):
                return count
        # What is only added is made a float32 by a multiplication with 1.
        adds = "_mix" in self.name and "1.0," in self.text
        return float(bool(_MULTIPLY_ADD.match(self.name)) and not adds)

    @cached_property
    def waits(self) -> dict[str, int]:
        """Results that may still be missing behind it, by unit ("any": shared and constant)."""
        if self.name.startswith("s_wait_"):
            return self._new_waits()
        found = {kind: int(n) for kind, n in _COUNTER.findall(self.text)}
        return {"memory" if kind == "vm" else "any": n for kind, n in found.items()}

    def _new_waits(self) -> dict[str, int]:
        match = _NEW_WAIT.match(self.text)
        if match is None:
            return {}
        names, number = match[1].split("_"), int(match[2], 0)
        if len(names) > 1:  # both counters in one number: loads above, shared memory below
            return {"memory": number >> 8 & 0x3F, "shared": number & 0x3F}
        unit = _NEW_COUNTERS.get(names[0])
        return {} if unit is None else {unit: number}


_UNITS: Final[tuple[tuple[tuple[str, ...], Unit], ...]] = (
    (_FREE, "free"),
    (_WAITS, "wait"),
    (_CONSTANT, "constant"),
    (("s_cbranch", "s_branch"), "branch"),
    (("v_",), "vector"),
    (("s_",), "scalar"),
    (_SHARED, "shared"),
    (_MEMORY, "memory"),
)


@lru_cache(maxsize=1 << 15)
def _line(text: str) -> AsmLine:
    """The instruction of that text, one for all kernels: what it names is found once."""
    return AsmLine(text)


@dataclass(frozen=True)
class AsmBlock:
    """A basic block of machine code."""

    number: int
    lines: tuple[AsmLine, ...]


def parsed(text: str) -> list[AsmBlock]:
    """The blocks of a kernel's machine code, in order."""
    blocks: list[tuple[int, list[AsmLine]]] = []
    for line in text.splitlines():
        code = line.split(";")[0].strip()
        if found := re.match(r"BB(\d+):", code):
            blocks.append((int(found[1]), []))
        elif blocks and re.match(r"[a-z]", code):
            blocks[-1][1].append(_line(code))
    return [AsmBlock(number, tuple(lines)) for number, lines in blocks]


def inner_loops(blocks: list[AsmBlock]) -> list[list[AsmBlock]]:
    """Loops that hold no other: from where a branch goes back to up to that branch."""
    places = {block.number: place for place, block in enumerate(blocks)}
    found = set()
    for place, block in enumerate(blocks):
        for line in block.lines:
            target = places.get(int(m[1])) if (m := _BRANCH.match(line.text)) else None
            if target is not None and target <= place:
                found.add((target, place))
    inner = [f for f in found if not any(_inside(g, f) for g in found)]
    return [blocks[first : last + 1] for first, last in sorted(inner)]


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def lines_of(blocks: Iterable[AsmBlock]) -> list[AsmLine]:
    """Instructions of blocks one after the other."""
    return [line for block in blocks for line in block.lines]
