"""Complaints raised deep inside the package; the stages add the layer's words for the place."""

from __future__ import annotations


class Malformed(ValueError):
    """A layer contradicts itself or its inputs."""


class Unsupported(ValueError):
    """A layer is well formed but asks for what vknn cannot do."""
