"""The table of kernel parameters: against the compiled modules, against GLSL, and in use."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import pytest

from vknn.errors import ShaderError, ShapeError
from vknn.lowering.generated.kernel_parameters import KERNELS
from vknn.lowering.kit.parameters import by_axis, parameters_of
from vknn.runtime.spirv import glsl
from vknn.runtime.spirv.expanded import expanded_kernel

ROOT = Path(__file__).resolve().parents[2]
CONSTANT = re.compile(r"layout\(constant_id = (\d+)\) const (\w+) (\w+)")
BLOCK = re.compile(r"layout\(push_constant\) uniform \w+ \{(.*?)\} \w+;", re.DOTALL)
MACRO = re.compile(r"^#define (\w+) ((?:.*\\\n)*.*)$", re.MULTILINE)


def source(kernel: str) -> str:
    return expanded_kernel(glsl.source_root(), kernel).text


def block_members(text: str) -> tuple[list[tuple[str, int]], bool]:
    """Names and array sizes of the push-constant block in the text; whether it has conditions."""
    found = BLOCK.search(text)
    if found is None:
        return [], False
    body = found[1]
    conditional = re.search(r"^\s*#if", body, re.MULTILINE) is not None
    for name, value in MACRO.findall(text):
        body = re.sub(rf"\b{name}\b(?!\()", value.replace("\\\n", " "), body)
    body = re.sub(r"//.*|^\s*#.*", "", body, flags=re.MULTILINE)
    members = []
    for declaration in body.split(";"):
        names = re.sub(r"^\s*(int|float|uint|SCALAR)\s", "", declaration.strip())
        for part in filter(None, map(str.strip, names.split(","))):
            name, _, size = part.partition("[")
            members.append((name.strip(), int(size.rstrip("] ") or 0)))
    return members, conditional


@pytest.mark.parametrize("kernel", glsl.kernels(glsl.source_root()))
def test_table_is_what_the_source_declares(kernel: str) -> None:
    """By another way than the generator's: the text, not the compiled module."""
    text, parameters = source(kernel), parameters_of(kernel)
    declared = {
        name: (int(n), type_.replace("bool", "int")) for n, type_, name in CONSTANT.findall(text)
    }
    held = {
        name: (c.id, "float" if c.is_float else "int") for name, c in parameters.constants.items()
    }
    steps = {name: value for name, value in held.items() if name.startswith("ep_")}
    for name, (number, type_) in steps.items():
        kind, step = re.fullmatch(r"ep_(code|a|b|mode)_(\d)", name).groups()  # type: ignore[union-attr]
        assert number == 100 + 4 * int(step) + ("code", "a", "b", "mode").index(kind)
        assert type_ == ("float" if kind in "ab" else "int")
    # The text also has what no variant of this kernel switches on.
    assert {n: v for n, v in held.items() if n not in steps}.items() <= declared.items()
    assert held or not declared
    members, conditional = block_members(text)
    names = list(dict.fromkeys(name for name, _ in members))
    # Of a block with conditions the text has the members of all branches.
    assert [n for n in names if n in parameters.push or not conditional] == list(parameters.push)
    assert {name: size for name, size in members if size} == dict(parameters.arrays)


def test_every_kernel_is_in_the_table() -> None:
    assert sorted(KERNELS) == glsl.kernels(glsl.source_root())


@pytest.mark.glsl
def test_table_is_what_the_generator_writes() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import kernel_parameters
    finally:
        sys.path.remove(str(ROOT / "tools"))
    written = kernel_parameters.TARGET.read_text(encoding="utf-8")
    assert written == kernel_parameters.module_text(), "run python tools/kernel_parameters.py"


def test_push_constants_are_packed_in_the_blocks_order() -> None:
    rotary = parameters_of("attention/rotary")
    values = {name: number for number, name in enumerate(reversed(rotary.push))}
    packed = struct.unpack(f"<{len(values)}i", rotary.pack(values))
    assert packed == tuple(reversed(range(len(values))))


def test_floats_and_arrays() -> None:
    priors = parameters_of("detection/ssd_decode")
    packed = priors.pack({"variances": (0.5, 1, 2.0, 3.0), "count": 7})
    assert struct.unpack("<i4f", packed) == (7, 0.5, 1.0, 2.0, 3.0)
    for wrong in ((1.0,) * 3, 1.0):
        with pytest.raises(ValueError, match="variances"):
            priors.pack({"variances": wrong, "count": 7})
    with pytest.raises(ValueError, match="count"):
        priors.pack({"variances": (1.0,) * 4, "count": (7,)})


def test_unknown_and_missing_names_are_errors() -> None:
    prior_box = parameters_of("detection/ssd_decode")
    with pytest.raises(ValueError, match="unknown 'counts', missing 'count'"):
        prior_box.pack({"variances": (1.0,) * 4, "counts": 7})
    conv = parameters_of("convolution/conv")
    with pytest.raises(ValueError, match=r"missing 'TM'.*tools/kernel_parameters\.py"):
        conv.specialization({"TN": 4, "AXES": 2})
    with pytest.raises(ValueError, match="unknown 'TK'"):
        conv.specialization({"TN": 4, "TM": 4, "AXES": 2, "TK": 1})
    with pytest.raises(ValueError, match=r"no entry.*tools/kernel_parameters\.py"):
        parameters_of("convolution/nothing")


def test_values_that_do_not_fit_are_a_shape_error() -> None:
    with pytest.raises(ShapeError, match="32 bits"):
        parameters_of("matmul/largest").pack({"rows": 1 << 31, "count": 1})
    with pytest.raises(ShapeError, match="32 bits"):
        parameters_of("convolution/conv").specialization({"TN": 1 << 32, "TM": 4, "AXES": 2})


def test_none_leaves_the_shaders_default() -> None:
    conv = parameters_of("convolution/conv")
    constants = conv.specialization({"TN": 4, "TM": None, "AXES": 2, "ep_a_0": 1})
    assert constants == {10: 4, 12: 2, 101: 1.0} and isinstance(constants[101], float)
    assert conv.named({0: 8, 10: 4, 101: 1.0}) == {"TN": 4, "ep_a_0": 1.0}


def test_members_by_axis() -> None:
    assert by_axis("pad", (1, 2, 3)) == {"pad_d": 1, "pad_h": 2, "pad_w": 3}
    assert by_axis("in", (5, 6)) == {"in_h": 5, "in_w": 6}


def test_broken_modules_are_shader_errors() -> None:
    from vknn.runtime.spirv.reflection import interface

    for broken in (b"", b"nonsense" * 8, struct.pack("<6I", 0x07230203, 0, 0, 9, 0, 5 << 16 | 6)):
        with pytest.raises(ShaderError):
            interface(broken)
