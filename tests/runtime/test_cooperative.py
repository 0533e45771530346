"""SPIR-V of cooperative matrices: what is written out, and that it comes through specialization."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from vknn.errors import ShaderError
from vknn.runtime.spirv import modules
from vknn.runtime.spirv.cooperative import completed
from vknn.runtime.spirv.specialize import specialized

EXTENSION = b"SPV_KHR_cooperative_matrix"
VARIANT = (("ACCESS", "0"), ("COOPERATIVE", "1"), ("HALF", "1"))
TYPE, LOAD, STORE, MULTIPLY = 4456, 4457, 4458, 4459


def instructions(module: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Opcode and operands."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    at = 5
    while at < len(words):
        size = words[at] >> 16
        assert size and at + size <= len(words)
        yield words[at] & 0xFFFF, words[at + 1 : at + size]
        at += size


def assembled(*parts: tuple[int, tuple[int, ...]]) -> bytes:
    words = [0x07230203, 0x10300, 0, 100, 0]
    for opcode, operands in parts:
        words += [len(operands) + 1 << 16 | opcode, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def text(opcode: int, string: bytes) -> tuple[int, tuple[int, ...]]:
    padded = string + bytes(4 - len(string) % 4)
    return opcode, struct.unpack(f"<{len(padded) // 4}I", padded)


HEAD = [
    text(10, EXTENSION),
    (71, (20, 1, 20)),  # decorations SpecId
    (71, (21, 1, 21)),
    (71, (22, 1, 22)),
]
TYPES = [
    (22, (1, 16)),  # float16, float32, uint, int
    (22, (2, 32)),
    (21, (3, 32, 0)),
    (21, (4, 32, 1)),
    *[(50, (4, spec, 16)) for spec in (20, 21, 22)],
]
REST = [(54, (5, 6, 0, 7)), (56, ())]


@pytest.mark.parametrize("by_id", [False, True], ids=["literal", "constant"])
def test_types_are_written_out_behind_what_they_name(by_id: bool) -> None:
    tag = (43, (4, 30, 12322021)) if by_id else (43, (4, 30, 0))
    module = assembled(*HEAD, tag, (TYPE, (40, 30 if by_id else 12322021)), *TYPES, *REST)
    found = list(instructions(completed(module)))
    at = next(i for i, (opcode, _) in enumerate(found) if opcode == TYPE)
    result, component, scope, rows, columns, use = found[at][1]
    assert (result, component, rows, columns) == (40, 2, 20, 21)
    constants = {operands[1]: operands[2] for opcode, operands in found[:at] if opcode == 43}
    assert (constants[scope], constants[use]) == (3, 2)
    declared = {operands[0] for opcode, operands in found[:at] if opcode in (21, 22)}
    declared |= {operands[1] for opcode, operands in found[:at] if opcode == 50}
    assert {component, rows, columns} <= declared
    assert struct.unpack("<5I", completed(module)[:20])[3] > max(scope, use)


def test_other_modules_stay_as_they_are() -> None:
    assert completed(b"no SPIR-V") == b"no SPIR-V"
    module = assembled(*TYPES, *REST)
    assert completed(module) == module
    assert completed(EXTENSION + bytes(20)) == EXTENSION + bytes(20)


def test_what_a_type_names_must_be_there() -> None:
    with pytest.raises(ShaderError, match="cooperative matrix 12322029"):
        completed(assembled(*HEAD, *TYPES, (TYPE, (40, 12322029)), *REST))


@pytest.mark.glsl
@pytest.mark.parametrize("kernel", ["matmul/shared", "convolution/shared"])
def test_kernels(kernel: str) -> None:
    more = (("B_BY_4", "1"), ("SEPARATE_BIAS", "0")) if kernel == "matmul/shared" else ()
    module = modules.spirv(kernel, tuple(sorted(VARIANT + more)))
    found = list(instructions(module))
    assert sum(opcode == TYPE for opcode, _ in found) == 3
    assert all(len(operands) == 6 for opcode, operands in found if opcode == TYPE)
    ids = [opcode for opcode, _ in found]
    assert {LOAD, STORE, MULTIPLY} <= set(ids)
    # Loads and stores say what they do to shared memory: without that no barrier orders them. Those
    # of columns in memory, which nothing writes, say nothing.
    loads = [operands for opcode, operands in found if opcode == LOAD]
    assert {operands[5] for operands in loads if len(operands) > 5} == {0x30}
    assert sum(len(operands) == 5 for operands in loads) == 1
    assert {o[4] for opcode, o in found if opcode == STORE} == {0x28}
    constants = [(10, 4), (11, 1), (12, 8), (13, 8), (17, 1), (20, 8), (100, 27), (101, 0.5)]
    cut = list(instructions(specialized(module, constants)))
    kept = (TYPE, LOAD, STORE, MULTIPLY, 17, 14, 59)
    assert [i for i in cut if i[0] in kept] == [i for i in found if i[0] in kept]
    # Branches turn into jumps and nothing else changes.
    assert [i for i in cut if i[0] not in (0, 247, 249, 250, 251)] == [
        i for i in found if i[0] not in (0, 247, 249, 250, 251)
    ]
