"""Kernel lab: one dispatch of a network as a folder, that is edited, run, timed and checked alone."""

from vknn.kernel_lab.comparison import OutputCheck
from vknn.kernel_lab.description import LabDescription
from vknn.kernel_lab.extraction import extract
from vknn.kernel_lab.lab import Lab
from vknn.kernel_lab.report import LabRun

__all__ = ["Lab", "LabDescription", "LabRun", "OutputCheck", "extract"]
