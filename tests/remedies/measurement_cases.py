"""Remedies of measurements: profiles, and comparisons with a peer."""

from __future__ import annotations

import pytest
from tests.remedies.case import Case, Place, without

from vknn.profiling import bench, profile
from vknn.profiling.peer import NcnnPeer


def ncnn_peer(place: Place) -> None:
    NcnnPeer(place.model, None, "", ["out"], mode="cpu").close()


def ncnn_peer_installed(place: Place) -> None:
    pytest.importorskip("ncnn")
    ncnn_peer(place)


def profiled(place: Place) -> None:
    profile(place.model, place.feeds, device="vulkan", runs=1, warmup=0)


def profiled_without_timestamps(place: Place) -> None:
    place.monkeypatch.setenv("VKNN_DISABLE", "timestamps")
    profiled(place)


CASES = [
    Case(
        "runs={}: at least one run is needed",
        lambda p: profile(p.model, p.feeds, device="cpu", runs=0),
        lambda p: profile(p.model, p.feeds, device="cpu", runs=1, warmup=0),
    ),
    Case(
        "runs={}: at least one run is needed",
        lambda p: bench(p.model, p.feeds, device="cpu", runs=0),
        lambda p: bench(p.model, p.feeds, device="cpu", runs=1, warmup=0),
    ),
    Case(
        "the peer ncnn is not installed: pip install ncnn",
        lambda p: (without("ncnn")(p), ncnn_peer(p)),
        ncnn_peer_installed,
    ),
    Case(
        "{} has no timestamps (or VKNN_DISABLE names them): it cannot be profiled by dispatch",
        profiled_without_timestamps,
        profiled,
        needs="device",
    ),
]
