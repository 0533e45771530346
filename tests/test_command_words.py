"""Words of command lines in options, as POSIX's shells and Windows have them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vknn.command_words import command_words


@pytest.mark.parametrize(
    ("system", "text", "words"),
    [
        ("posix", "sh -c 'exit 3'", ["sh", "-c", "exit 3"]),
        ("posix", r"a\ b c", ["a b", "c"]),
        ("nt", r'C:\t\a.exe "D:\my files\x" \n', [r"C:\t\a.exe", r"D:\my files\x", r"\n"]),
        ("nt", "a ' b", None),
    ],
)  # fmt: skip
def test_words(
    system: str, text: str, words: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vknn.command_words.os", SimpleNamespace(name=system))
    if words is None:
        with pytest.raises(ValueError, match="No closing quotation"):
            command_words(text)
    else:
        assert command_words(text) == words
