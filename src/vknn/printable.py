"""Names of files and tensors as they are printed."""

from __future__ import annotations


def one_line(name: str) -> str:
    """A name with escapes in place of line ends and all else that is not printable."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
