"""``python -m vknn``."""

from vknn.cli import console

console()
