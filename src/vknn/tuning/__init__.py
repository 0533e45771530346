"""Kernels chosen by measurement: every candidate timed on the device, the fastest remembered."""

from vknn.tuning.report import Report, Row
from vknn.tuning.tune import tune

__all__ = ["Report", "Row", "tune"]
