"""Text of reports, as ``print`` shows it, made by rich."""

from __future__ import annotations

from rich.console import Console, RenderableType


def text_of(shown: RenderableType, width: int = 160) -> str:
    """Text of an object as rich shows it in so many columns, without colours."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()
