"""Lowering: from a graph and a device's limits to a plan. Knows no Vulkan handle."""

from vknn.lowering.assemble.check import PlanError, check_plan
from vknn.lowering.assemble.plan_text import format_plan
from vknn.lowering.choose.candidates import candidates
from vknn.lowering.kernels import import_common
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import LoweringOptions
from vknn.lowering.kit.weight_cache import WeightCache
from vknn.lowering.lower import lower

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

import_common()
