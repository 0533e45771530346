"""benchmarks/choices.py: the planner's choices beside the best candidates by modelled time."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.choosing.joining import Joining, add_joinings
from benchmarks.choosing.problems import Choice, add_choices
from benchmarks.choosing.report import (
    FILL,
    NEAR,
    SUMMARY_HEADS,
    exceptions,
    losses,
    picks_of,
    share,
    summary,
    summary_rows,
    text,
)
from tests.lowering.limits import DISCRETE
from tests.null_devices.jobs import ROOT, start
from tests.peers.ncnn.networks import NETWORKS

from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, lower
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Relu
from vknn.ops.pooling.pool import MaxPool
from vknn.tuning.jobs import LAYER

CHOICES = [
    {
        "problem": "Conv: a",
        "form": "c4 - -> c4",
        "estimates": {"tile1x1": 5.0, "tile4x4": 7.0, "general": 90.0},
        "times": {"tile1x1": 12.0, "tile4x4": 10.0, "general": None},
        "taken": {"one": {"tile1x1": 2}, "two": {"tile4x4": 1, "tile1x1": 1}},
    },
    {
        "problem": "MaxPool: b",
        "form": "c4 -> c4",
        "estimates": {"window1": 5.0, "window2": 6.0},
        "times": {"window1": 10.9, "window2": 10.0},
        "taken": {"one": {"window1": 3}},
    },
]


def test_picks_stand_beside_the_best_the_greatest_loss_first() -> None:
    worst, better, best = picks_of(CHOICES)
    assert (worst.problem, worst.taken, worst.best) == ("Conv: a", "tile1x1", "tile4x4")
    assert worst.ratio == pytest.approx(1.2) and not worst.good
    assert worst.lost == pytest.approx(6.0) and worst.layers == {"one": 2, "two": 1}
    assert better.taken == "window1" and better.good and better.ratio == pytest.approx(1.09)
    assert best.taken == "tile4x4" and best.lost == 0


def test_share_losses_and_exceptions() -> None:
    picks = picks_of(CHOICES)
    assert share(picks) == pytest.approx(2 / 3) and share([]) == 1.0
    assert losses(picks)["one"] == (pytest.approx(56.7), pytest.approx(50.0))
    assert exceptions(picks) == {"Conv: a | tile1x1": 1.2}


def test_candidates_without_a_time_are_left_out() -> None:
    unknown = {**CHOICES[0], "times": {"tile1x1": None}}
    assert picks_of([unknown]) == []
    general = {**CHOICES[0], "taken": {"one": {"general": 1}}}
    assert picks_of([general]) == []


def test_what_a_chain_loses_is_counted_and_its_time_is_not() -> None:
    ways = {"apart": 30.0, "chain of 2": 20.0}
    chain = {"problem": "a >> b", "form": "chain", "estimates": ways, "times": ways}
    picks = picks_of([*CHOICES, {**chain, "taken": {"one": {"apart": 2}}}])
    assert (picks[0].ratio, picks[0].lost, picks[0].good) == (1.5, 20.0, False)
    assert share(picks) == 0.5
    assert losses(picks)["one"] == (pytest.approx(56.7), pytest.approx(30.0))


def test_counters_are_rivals_where_their_fill_pays() -> None:
    shared = {
        "problem": "Conv: c",
        "form": "c4 - -> c4",
        "estimates": {},
        "times": {"shared32x32": 10.0, "splitk2-shared32x32": 8.0},
        "counting": ["splitk2-shared32x32"],
    }
    once = {**shared, "taken": {"one": {"shared32x32": 1}}}
    assert share(picks_of([once], fill=1.9)) == 0.0  # 2 us are more than the fill
    assert share(picks_of([once], fill=2.0)) == 1.0
    twice = {**shared, "taken": {"one": {"shared32x32": 2}}}
    assert share(picks_of([twice], fill=2.0)) == 0.0
    other = {**shared, "problem": "Conv: d", "taken": {"one": {"splitk2-shared32x32": 1}}}
    assert share(picks_of([once, other], fill=9.0)) == 0.5  # there is a fill already
    two = {**once, "taken": {"one": {"shared32x32": 1}, "two": {"shared32x32": 9}}}
    first, second = picks_of([two], fill=2.0)
    assert (first.layers, first.best) == ({"two": 9}, "splitk2-shared32x32")
    assert (second.layers, second.best) == ({"one": 1}, "shared32x32")


def test_the_table_names_what_is_far() -> None:
    shown = text(picks_of(CHOICES), only_far=True)
    assert "tile1x1 -> tile4x4: Conv: a" in shown and "MaxPool" not in shown
    assert "within 10 %: 2 of 3 (66.7 %)" in shown and "13.4 % lost" in shown


def test_what_is_kept_of_choices() -> None:
    document = {"null": "navi21", "device": "a GPU", "dispatch": 5.0, "extra": 1}
    kept = summary({**document, "precisions": {"fp16": CHOICES, "fp32": CHOICES[1:]}})
    assert kept["precisions"]["fp32"]["far"] == []
    found = kept["precisions"]["fp16"]
    assert (found["good"], found["picks"]) == (2, 3)
    assert found["time"] == pytest.approx(78.7) and found["best"] == pytest.approx(70.0)
    assert found["far"] == [["Conv: a", "tile1x1", 12.0, "tile4x4", 10.0]]
    first, second = summary_rows([kept])
    assert len(first) == len(SUMMARY_HEADS) and first[:2] == ["navi21 fp16", "2 of 3"]
    assert "tile1x1 (1.20 x tile4x4)" in first[3] and second[3] == "-"


def pools() -> Graph:
    """Two equal poolings and what has no choice."""
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 8, 16, 16)))
    op = MaxPool(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
    return g.finish({"y": g.add(Relu(), g.add(op, g.add(op, x)))})


def test_equal_problems_are_one_choice() -> None:
    found: dict[tuple[str, str], Choice] = {}
    for name in ("one", "two"):
        add_choices(found, name, pools(), DISCRETE, LoweringOptions())
    (choice,) = (c for (key, _), c in found.items() if key.startswith("MaxPool"))
    assert sum(choice.taken["one"].values()) == 2 and choice.taken["one"] == choice.taken["two"]
    assert set(choice.contest.names) == set(choice.estimates) == {"window1", "window2", "window4"}


def separables(kernel: int) -> Graph:
    """Two equal depthwise separable convolutions."""
    g = GraphBuilder()
    v = g.input("x", TensorType((1, 8, 16, 16)))
    depthwise = Conv((1, 1), (1,) * 4, (1, 1), 8)
    for _ in range(2):
        first, second = (
            g.constant(np.zeros(s, np.float32)) for s in ((8, 1, kernel, kernel), (8, 8, 1, 1))
        )
        v = g.add(Conv((1, 1), (0,) * 4, (1, 1)), g.add(depthwise, v, first), second)
    return g.finish({"y": v})


def test_chains_and_their_nodes_apart_are_choices() -> None:
    found: dict[tuple[str, str], Joining] = {}
    options = LoweringOptions(frozenset({"inverted"}))  # chains of three
    for name in ("one", "two"):
        add_joinings(found, name, separables(3), DISCRETE, options)
    (((key, form), joining),) = found.items()
    assert form == "chain" and key.count("Conv") == 2 and " >> " in key
    assert [len(kernels) for kernels in joining.ways().values()] == [2, 1]
    assert joining.estimates["chain of 2"] < joining.estimates["apart"]
    assert joining.taken == {"one": {"chain of 2": 2}, "two": {"chain of 2": 2}}
    for kernels in joining.ways().values():
        for job, layout, name in kernels:
            plan = lower(job.graph(), DISCRETE, replace(job.options, algorithm=name, layout=layout))
            assert any(LAYER in dispatch.nodes for dispatch in plan.dispatches)
    add_joinings(found, "three", separables(7), DISCRETE, options)  # no kernel has 49 taps
    assert len(found) == 1


#: Picks of the test below that are further from the best, with their ratio.
KNOWN: dict[str, float] = {}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("device", "dispatch", "names", "least"),
    [
        ("navi21", 5.15, ("resnet18", "mobilenet_v2"), 40),
        ("m1", 3.82, ("efficientnet_b0",), 30),
    ],
)
def test_choices_are_near_the_best_on_a_null_device(
    shared: Path,
    tmp_path: Path,
    device: str,
    dispatch: float,
    names: tuple[str, ...],
    least: int,
) -> None:
    """Of large convolutions and of small and depthwise ones, on a device whose code is read, and of
    chains, on one whose code is not."""
    networks = []
    for name in names:
        param, weights = shared / "benchmark" / "ncnn" / f"{name}.param", tmp_path / f"{name}.bin"
        write_random_weights(param, weights)
        files = {"param": str(param), "weights": str(weights)}
        networks.append({"name": name, "shape": NETWORKS[name], **files})
    job = {"networks": networks, "precision": "fp16", "limit": None, "times": None}
    job["near"] = NEAR
    program = ["-m", "choosing.child", json.dumps({**job, "dispatch": dispatch})]
    paths = [ROOT / "benchmarks", ROOT / "tools", ROOT, os.environ["PYTHONPATH"]]
    path = os.pathsep.join(str(path) for path in paths)
    done = start(device, program, 1200, PYTHONPATH=path, VKNN_NULL_DEVICE="1")
    assert done.returncode == 0, done.stderr
    choices = json.loads(done.stdout.splitlines()[-1])["choices"]
    picks = picks_of(choices, FILL * dispatch)
    assert len(picks) > least
    far = exceptions(picks)
    assert far.keys() <= KNOWN.keys(), far
    assert all(ratio <= KNOWN[key] + 0.05 for key, ratio in far.items())
