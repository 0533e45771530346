"""Lowering: from a graph and a device's limits to a plan. Knows no Vulkan handle."""

import importlib
import importlib.util

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

for _family in (
    "attention", "channel_normalization", "convolution", "detection", "elementwise", "matmul",
    "movement", "normalization", "pooling", "quantization", "reduction", "resize",
):
    if importlib.util.find_spec(f"vknn.lowering.{_family}"):
        importlib.import_module(f"vknn.lowering.{_family}")
