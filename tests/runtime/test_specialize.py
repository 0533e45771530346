"""Folding of specialization constants in SPIR-V: needs a compiler, no device."""

from collections.abc import Callable

import numpy as np
import pytest

from vknn.runtime.spirv.modules import compile_glsl
from vknn.runtime.spirv.specialize import Module, specialized

SOURCE = """#version 450
layout(local_size_x = 1) in;
layout(constant_id = 7) const int code = 0;
layout(constant_id = 8) const bool twice = false;
layout(constant_id = 9) const float scale = 1.0;
layout(set = 0, binding = 0, std430) buffer B { float b[]; };
void main() {
    float v = b[0];
    switch (code) {
    case 1: v = -v; break;
    case -2: v = sqrt(v); break;
    default: v = exp(v);
    }
    if (twice) { if ((code & 3) == 1) v *= 2.0; }
    if (scale > 0.5) v *= scale;
    b[0] = v;
}
"""
NOP, LABEL, BRANCH = 1 << 16, 2 << 16 | 248, 2 << 16 | 249
SELECTION_MERGE = 3 << 16 | 247


@pytest.fixture(scope="module")
def spirv() -> bytes:
    return compile_glsl(SOURCE)


def words(module: bytes) -> np.ndarray:
    return np.frombuffer(module, np.uint32)


def switch_targets(module: bytes) -> set[int]:
    """Label that the block of the switch goes to, as written by the fold."""
    code = words(module)
    nops = np.flatnonzero(code == NOP)
    first = next(i for i in nops if code[i + 1] != NOP)
    assert code[first + 1] == BRANCH
    return {int(code[first + 2])}


@pytest.mark.glsl
def test_size_and_constants_stay(spirv: bytes) -> None:
    folded = specialized(spirv, [(7, 1), (8, True)])
    assert len(folded) == len(spirv)
    same = words(folded) == words(spirv)
    assert 0 < np.count_nonzero(~same) < 40


@pytest.mark.glsl
def test_each_case_goes_its_own_way(spirv: bytes) -> None:
    targets = [switch_targets(specialized(spirv, [(7, v)])) for v in (1, -2, 5, 6)]
    assert targets[0] != targets[1] != targets[2]
    assert targets[2] == targets[3]  # both the default


@pytest.mark.glsl
def test_conditions_on_floats_are_left(spirv: bytes) -> None:
    folded = specialized(spirv, [(7, 1), (8, True), (9, 2.0)])
    assert np.count_nonzero(words(folded) == SELECTION_MERGE) == 1


@pytest.mark.parametrize("data", [b"", b"abc", b"\x03\x02\x23\x07" * 2, bytes(400)])
def test_what_is_no_module_stays(data: bytes) -> None:
    assert Module.parse(data).fold({}) == data[: len(data) // 4 * 4]


CONDITIONS = [
    ("A == 3", lambda a, b: a == 3),
    ("A != 3", lambda a, b: a != 3),
    ("A > B", lambda a, b: a > b),
    ("A >= B", lambda a, b: a >= b),
    ("A < B", lambda a, b: a < b),
    ("A <= B", lambda a, b: a <= b),
    ("A == 3 || B == 2", lambda a, b: a == 3 or b == 2),
    ("A == 3 && B == 2", lambda a, b: a == 3 and b == 2),
    ("!(A == 3)", lambda a, b: a != 3),
    ("(A == 3) == (B == 2)", lambda a, b: (a == 3) == (b == 2)),
    ("(A == 3) != (B == 2)", lambda a, b: (a == 3) != (b == 2)),
    ("(A & 2) == 2", lambda a, b: a & 2 == 2),
    ("(A | B) == 3", lambda a, b: a | b == 3),
    ("(A ^ B) == 1", lambda a, b: a ^ b == 1),
    ("A + B == 5", lambda a, b: a + b == 5),
    ("A - B == 1", lambda a, b: a - b == 1),
    ("A * B == 6", lambda a, b: a * b == 6),
]


@pytest.mark.glsl
@pytest.mark.parametrize(("condition", "meaning"), CONDITIONS, ids=[c for c, _ in CONDITIONS])
def test_conditions(condition: str, meaning: Callable[[int, int], bool]) -> None:
    """The side taken is the one that holds the store; every pair of values is tried."""
    module = compile_glsl(
        f"""#version 450
layout(local_size_x = 1) in;
layout(constant_id = 1) const int A = 0;
layout(constant_id = 2) const int B = 0;
layout(set = 0, binding = 0, std430) buffer Out {{ float b[]; }};
void main() {{ if ({condition}) b[0] = 1.0; }}
"""
    )
    places = {}
    for a in (-1, 1, 2, 3):
        for b in (-2, 1, 2, 3):
            (target,) = switch_targets(specialized(module, [(1, a), (2, b)]))
            places.setdefault(meaning(a, b), set()).add(target)
    assert all(len(labels) == 1 for labels in places.values())
    # Of the two labels the body's stands first in the module.
    assert places[True] != places[False]
    code = words(module).tolist()
    at = {taken: _label_place(code, next(iter(labels))) for taken, labels in places.items()}
    assert at[True] < at[False]


def _label_place(code: list[int], label: int) -> int:
    return next(i for i in range(len(code) - 1) if code[i] == LABEL and code[i + 1] == label)
