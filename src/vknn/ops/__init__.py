"""The canonical ops, one module a family. Importing this makes every op known."""

from vknn.ops import elementwise

__all__ = ["elementwise"]
