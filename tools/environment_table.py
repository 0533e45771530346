"""Writer of docs/environment.md from the table in src/vknn/environment.py."""

from __future__ import annotations

from pathlib import Path

from vknn.environment import markdown

if __name__ == "__main__":
    page = Path(__file__).resolve().parents[1] / "docs" / "environment.md"
    page.write_text(markdown(), encoding="utf-8")
