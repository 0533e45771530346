"""Lowering: from a graph and a device's limits to a plan. Knows no Vulkan handle."""

from vknn.lowering import families as families  # registers every rule
from vknn.lowering.candidates import candidates
from vknn.lowering.check import PlanError, check_plan
from vknn.lowering.emitter import WeightCache
from vknn.lowering.layouts import Layout
from vknn.lowering.lower import lower
from vknn.lowering.registry import LoweringOptions
from vknn.lowering.text import format_plan

__all__ = [
    "Layout",
    "LoweringOptions",
    "PlanError",
    "WeightCache",
    "candidates",
    "check_plan",
    "format_plan",
    "lower",
]
