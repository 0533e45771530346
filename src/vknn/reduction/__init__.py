"""Reduction of a failing model to the least that still fails, and the switch that decides it."""

from __future__ import annotations

from vknn.reduction.bisect import bisect
from vknn.reduction.bisect_report import BisectReport
from vknn.reduction.outcome import Outcome
from vknn.reduction.reduce import reduce
from vknn.reduction.report import ReductionReport, Size
from vknn.reduction.switches import Switch
from vknn.reduction.worker import Setting

__all__ = [
    "BisectReport",
    "Outcome",
    "ReductionReport",
    "Setting",
    "Size",
    "Switch",
    "bisect",
    "reduce",
]
