"""Complaints raised deep inside a format's package; whoever knows the place adds it in the file's
own words."""

from __future__ import annotations


class Malformed(ValueError):
    """A layer contradicts itself or its inputs."""


class Unsupported(ValueError):
    """A layer is well formed but asks for what vknn cannot do."""


#: What arithmetic on numbers that no file should hold may raise while a layer is converted. Checks
#: come before it with better words; these are for what they overlook.
STRAY = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
