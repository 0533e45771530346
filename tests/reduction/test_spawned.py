"""Trials in processes that are started anew, as on systems without fork."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.reduction.networks import FAULTY, write_network

import vknn
from vknn.formats.graph_folder.writer import save
from vknn.formats.layer_files import run_layer_files
from vknn.reduction.cases import stages
from vknn.reduction.worker import Begin, ForkingWorker, TrialSetting, Try
from vknn.tool_inputs import complete_feeds


@pytest.mark.device
def test_where_there_is_no_fork_a_process_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(os, "fork")
    good, bad, slow = (case(tmp_path / name, mode) for name, mode in NAMED.items())
    worker = ForkingWorker()
    assert "device" in worker.answer(Begin(TrialSetting(layers=(str(FAULTY),)), 30.0))["facts"]
    agreed = worker.answer(Try(good, 30.0))
    assert agreed["kind"] == "agrees", agreed
    first = worker._forked
    died = worker.answer(Try(bad, 30.0))
    assert (died["kind"], died["detail"]) == ("died", "SIGSEGV")
    assert worker.answer(Try(good, 30.0, ("winograd",)))["kind"] == "agrees"
    assert worker._forked is not first
    assert worker.answer(Try(slow, 2.0, ("winograd",)))["kind"] == "hung"
    assert worker._forked is None


NAMED = {"good": 0, "bad": 5, "slow": 6}


def case(folder: Path, mode: int) -> str:
    """A folder with the graph of the network whose layer has this mode, and its arrays."""
    folder.mkdir()
    run_layer_files([FAULTY], again=False)
    with vknn.Session(write_network(folder, mode), device="numpy") as session:
        whole, *_ = stages(session, complete_feeds(session, {}, None, 0))
    save(folder, whole.graph, whole.feeds)
    return str(folder)
