"""Refusals: pipelines that a driver is not asked for again, as it crashed or hung at them before.

A process that starts anew behind a crash (``vknn profile --static``) sets ``refused``. What would
be such a pipeline does nothing then, and the plan around it can be made all the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from vknn.plan import Dispatch

K = TypeVar("K")
#: Works of a driver, as :func:`compiling` and :func:`reading` name them -> how they ended.
refused: dict[str, str] = {}
#: Whether one pipeline is compiled at a time, so that it is known at which one a driver crashes.
one_at_a_time = False

#: SPIR-V of ``void main() {}``, by the specification's numbers of instructions.
_WORDS = (
    *(0x07230203, 0x00010000, 0, 5, 0),  # magic number, version 1.0, generator, bound, schema
    *(2 << 16 | 17, 1),  # OpCapability Shader
    *(3 << 16 | 14, 0, 1),  # OpMemoryModel Logical GLSL450
    *(5 << 16 | 15, 5, 1, 0x6E69616D, 0),  # OpEntryPoint GLCompute %1 "main"
    *(6 << 16 | 16, 1, 17, 1, 1, 1),  # OpExecutionMode %1 LocalSize 1 1 1
    *(2 << 16 | 19, 2),  # %2 = OpTypeVoid
    *(3 << 16 | 33, 3, 2),  # %3 = OpTypeFunction %2
    *(5 << 16 | 54, 2, 1, 0, 3),  # %1 = OpFunction
    *(2 << 16 | 248, 4),  # %4 = OpLabel
    *(1 << 16 | 253, 1 << 16 | 56),  # OpReturn, OpFunctionEnd
)
NOTHING = struct.pack(f"<{len(_WORDS)}I", *_WORDS)


def compiling(dispatch: Dispatch) -> str:
    """The work of compiling a dispatch's pipeline, as drivers' watchers are told."""
    return f"compiling {dispatch.kernel} ({', '.join(dispatch.nodes)})"


def reading(kernel: str) -> str:
    """The work of reading a kernel's module."""
    return f"reading the module of {kernel}"


def refusal(dispatch: Dispatch) -> str:
    """Text of how a driver ended at a dispatch before; "" where it did not."""
    return refused.get(compiling(dispatch)) or refused.get(reading(dispatch.kernel)) or ""


def asked(keys: Sequence[K], dispatches: Sequence[Dispatch]) -> list[K]:
    """Keys (PipelineKey) of the pipelines that a driver is asked for; they do nothing where it
    refused."""
    if not refused:
        return list(keys)
    return [
        _nothing(key) if refusal(dispatch) else key
        for key, dispatch in zip(keys, dispatches, strict=True)
    ]


def _nothing(key: Any) -> Any:
    return replace(key, spirv=NOTHING, constants=())
