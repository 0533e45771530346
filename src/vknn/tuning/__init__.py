"""Kernels chosen by measurement: every candidate timed on the device, the fastest remembered."""

from vknn.tuning.report import TuneReport, TuneRow
from vknn.tuning.tune import tune

__all__ = ["TuneReport", "TuneRow", "tune"]
