"""Comparison of profiles: which layers became faster or slower, and whether that is chance."""

from vknn.profiling.comparison.compare import compare
from vknn.profiling.comparison.result import Comparison, Row

__all__ = ["Comparison", "Row", "compare"]
