"""Trials: what a process does that was started for them, not forked (reduction/spawned.py)."""

from __future__ import annotations

from typing import Any

from vknn.formats.layer_files import run_layer_files
from vknn.reduction.worker import CaseTrials, TrialSetting
from vknn.tuning.worker import serve


class SpawnedTrials:
    """Trials of the setting that the first request brings along."""

    def __init__(self) -> None:
        self._trials = CaseTrials(TrialSetting())

    def answer(self, request: tuple[TrialSetting | None, str]) -> dict[str, Any]:
        """The outcome of the request's folder; of none facts about the device."""
        setting, folder = request
        if setting is not None:
            run_layer_files(setting.layers)
            self._trials = CaseTrials(setting)
        return self._trials.answer(folder)


def main() -> None:
    """The process of trials."""
    serve(SpawnedTrials())
