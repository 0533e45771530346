"""Regular expressions in RE2's syntax, held against Python's where both mean the same."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

from vknn.graph import DType, TensorType
from vknn.ops.text.matching import Matcher, RegexFullMatch
from vknn.ops.text.patterns import BadPattern

TEXTS = (
    "", "a", "b", "ab", "aab", "abc", "aaa", "abab", "ABC", "Hello", "a\nz", "\n", "3.14", "3.",
    "me@x.com", "foo", "foobar", "A", "a.b*", "xxy", "y", "-", "a-b", "1-2", "a\nb", "_", " \t",
)  # fmt: skip
#: Patterns that Python's re understands in the same way, for ASCII.
SHARED = (
    "a*b", "(a|b)+c?", "[a-c]{2,3}", "[^a-c]+", r"\d+\.\d*", r"\w+@\w+\.com", "(?i)hello",
    "(?i:h)ello", ".", "(?s).", r"\bfoo\b", r"foo\B.*", r"\x41", r"\101", "a{2}", "a{2,}", "x*?y",
    "(?:ab)*", "(?P<n>a)b", "", "a|", "()", "[]a]+", r"[a\]]+", "[-a]+", r"[\d-]+", "(a*)*",
    "(a+)+b", r"(?m)^a$\n^b$", "(?i)[A-C]+", "x{0}", r"[^\d]+", r"\.", "^a.*z", "(?s)^a.*z",
    "(|a)+b",
)  # fmt: skip


@pytest.mark.parametrize("pattern", SHARED)
def test_as_python_has_it(pattern: str) -> None:
    matcher, other = Matcher(pattern), re.compile(pattern, re.ASCII)
    found = {text: matcher.matches(text) for text in TEXTS}
    assert found == {text: other.fullmatch(text) is not None for text in TEXTS}


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a$", ["a"], ["a\n", "b"]),  # the end, not a line's end before it
        (r"a\z", ["a"], ["a\n"]),
        (r"\A\w\z", ["a"], ["é", ""]),
        (r"\d", ["7"], ["٣"]),
        (r"\s", [" ", "\t"], ["\v"]),
        ("[[:alpha:]]+", ["aZ"], ["a1", "é"]),
        ("[[:^digit:]_]+", ["a_é"], ["1"]),
        (r"\pL+", ["aé日"], ["1"]),
        (r"\p{Lu}\p{^Lu}", ["Éa"], ["éa", "ÉÉ"]),
        (r"\P{L}", ["1"], ["a"]),
        (r"\Qa.b*\E+", ["a.b*", "a.b**"], ["aXb", "a.b"]),
        (r"\Qa|", ["a|"], ["a"]),
        (r"\x{1F600}", ["😀"], [""]),
        ("(?i)É", ["é", "É"], ["e"]),
        ("(?i)k", ["K", "\u212a"], ["x"]),
        ("(?i)ſ", ["s", "S", "ſ"], ["f"]),
        ("(?i)[^k]", ["a"], ["K", "\u212a"]),
        ("(?i)(?-i)a", ["a"], ["A"]),
        ("(?U)a+", ["aaa"], [""]),
        ("(?<n>a)", ["a"], ["b"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        (r"\v\a\f", ["\v\a\f"], ["v"]),
    ],
)
def test_where_python_differs(pattern: str, yes: list[str], no: list[str]) -> None:
    matcher = Matcher(pattern)
    assert [matcher.matches(text) for text in yes] == [True] * len(yes)
    assert [matcher.matches(text) for text in no] == [False] * len(no)


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "a**", "a++", "*a", "[b-a]", "[a", "a\\", r"\1", r"\8", r"\e", "(?=a)", "(?<=a)",
     "(?x)a", "a{1001}", "a{3,2}", r"\C", r"\p{Greek}", r"\p{", "[[:foo:]]", r"\x{110000}", r"\xZ1",
     "(?P<a-b>c)", "((((" * 100, "(a{1000}){1000}"],
)  # fmt: skip
def test_patterns_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Matcher(pattern)


def test_no_pattern_takes_exponential_time() -> None:
    start = time.monotonic()
    assert not Matcher("(a*)*(a|aa)+b").matches("a" * 200)
    assert time.monotonic() - start < 20


def test_the_op() -> None:
    x = np.array([["né", ""], ["n", "\udcff"]], object)
    stored = np.array([[t.encode("utf-8", "surrogateescape") for t in row] for row in x], object)
    op = RegexFullMatch("n.?")
    assert op.infer(TensorType((2, 2), DType.STRING)) == (TensorType((2, 2), DType.BOOL),)
    assert op.reference(stored)[0].tolist() == [[True, False], [True, False]]
