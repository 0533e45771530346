"""Kernel lab: one dispatch of a network as a folder: edited, run, timed and checked alone."""

from vknn.kernel_lab.adoption import Adoption, adoption
from vknn.kernel_lab.choices import NoSingleDispatchError
from vknn.kernel_lab.comparison import OutputCheck
from vknn.kernel_lab.description import LabDescription
from vknn.kernel_lab.extraction import extract
from vknn.kernel_lab.lab import Lab
from vknn.kernel_lab.report import LabRun
from vknn.kernel_lab.sweep import Sweep, SweepRow
from vknn.kernel_lab.watch import Watched, watch

__all__ = [
    "Adoption",
    "Lab",
    "LabDescription",
    "LabRun",
    "NoSingleDispatchError",
    "OutputCheck",
    "Sweep",
    "SweepRow",
    "Watched",
    "adoption",
    "extract",
    "watch",
]
