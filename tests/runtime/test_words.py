"""Words of SPIR-V modules: needs neither a compiler nor a device."""

from __future__ import annotations

import pytest

from vknn.runtime.spirv import words

HEADER = (words.MAGIC, 0x10300, 0, 10, 0)
TYPE, DECORATION = (words.TYPE_INT, (1, 32, 0)), (words.DECORATE, (2, words.SPEC_ID, 7))
MODULE = (*HEADER, *words.flat([TYPE, DECORATION, (words.NOP, ())]))


def test_instructions_in_order() -> None:
    assert list(words.instructions(MODULE)) == [TYPE, DECORATION, (words.NOP, ())]
    assert list(words.instructions(list(MODULE), {words.DECORATE})) == [
        (DECORATION[0], list(DECORATION[1]))
    ]


def test_a_first_word_holds_size_and_opcode() -> None:
    """Specification, section 2.3: the high half is the size, that word included."""
    assert MODULE[len(HEADER)] == 4 << 16 | 21
    assert words.first_word(words.BRANCH, 1) == 2 << 16 | 249


@pytest.mark.parametrize("count", range(len(HEADER) + 4, len(HEADER) + 8))
def test_what_is_not_whole_ends_the_module(count: int) -> None:
    assert list(words.instructions(MODULE[:count])) == [TYPE]


def test_an_instruction_of_no_words_ends_the_module() -> None:
    assert list(words.instructions((*HEADER, *words.flat([TYPE]), 0, 1 << 16))) == [TYPE]


@pytest.mark.parametrize("module", [(), HEADER[:2], HEADER])
def test_modules_without_instructions(module: tuple[int, ...]) -> None:
    assert list(words.instructions(module)) == []


def test_packed_and_unpacked() -> None:
    data = words.packed(MODULE)
    assert data[:4] == b"\x03\x02\x23\x07"
    assert words.unpacked(data) == MODULE
    assert words.unpacked(data + b"abc") == MODULE
    assert words.unpacked(b"abc") == ()
