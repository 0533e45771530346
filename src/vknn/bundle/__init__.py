"""Bundles: a network's plans, SPIR-V and weights in one file, which ``runner/vknn_run.c`` runs."""

from vknn.bundle.export import Exported, ExportedPlan, export
from vknn.bundle.reader import Bundle
from vknn.bundle.runner import Runner
from vknn.bundle.runner_port import RunnerPort
from vknn.bundle.targets import TARGETS

__all__ = [
    "TARGETS",
    "Bundle",
    "Exported",
    "ExportedPlan",
    "Runner",
    "RunnerPort",
    "export",
]
