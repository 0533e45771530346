"""Comparison of profiles: which layers became faster or slower, and whether that is chance."""

from vknn.profiling.comparison.compare import compare
from vknn.profiling.comparison.formats import junit, markdown
from vknn.profiling.comparison.result import ProfileComparison, Row
from vknn.profiling.comparison.versus import versus

__all__ = ["ProfileComparison", "Row", "compare", "junit", "markdown", "versus"]
