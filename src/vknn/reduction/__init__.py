"""Reduction of a failing model to the least that still fails, and the switch that decides it."""

from __future__ import annotations

from vknn.reduction.bisect import bisect
from vknn.reduction.bisect_report import BisectReport
from vknn.reduction.reduce import reduce
from vknn.reduction.report import ReductionReport, Size
from vknn.reduction.switches import PartSwitch
from vknn.reduction.verdict import Verdict
from vknn.reduction.worker import TrialSetting

__all__ = [
    "BisectReport",
    "PartSwitch",
    "ReductionReport",
    "Size",
    "TrialSetting",
    "Verdict",
    "bisect",
    "reduce",
]
