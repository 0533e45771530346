"""Keys of problems are stable, and a choice leaves the layouts free."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from vknn.graph import GraphBuilder, Node, Op, TensorType
from vknn.lowering import Layout, LoweringOptions, candidates
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.tuned_choices import choice_key, chosen, form_of, problem_key
from vknn.lowering.kit.candidate import Candidate
from vknn.ops.convolution.conv import Conv
from vknn.ops.detection.yolo import YoloDetection
from vknn.ops.elementwise import Add, Fused, FusedStep, LeakyRelu, Relu
from vknn.plan import DeviceLimits
from vknn.tuning.jobs import find_jobs

LIMITS = DeviceLimits(kind="discrete")
CONV = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
WEIGHT = np.ones((5, 3, 3, 3), np.float32)
CONV_KEY = (
    "Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1): "
    "float32[1, 3, 7, 7], float32[5, 3, 3, 3] constant -> float32[1, 5, 7, 7]"
)


def node(op: Op, *shapes: tuple[int, ...], weight: np.ndarray | None = WEIGHT) -> Node:
    builder = GraphBuilder()
    x, *others = [builder.input(f"x{i}", TensorType(s)) for i, s in enumerate(shapes)]
    constants = [] if weight is None else [builder.constant(weight)]
    value = builder.add(op, x, *constants, *others)
    return builder.finish({"y": value}).nodes[0]


def key(*arguments: object, **options: object) -> str:
    made = node(*arguments, **options)  # type: ignore[arg-type]
    return problem_key(make_problem(made, LIMITS, LoweringOptions()))


def test_the_key_of_a_convolution() -> None:
    assert key(CONV, (1, 3, 7, 7)) == CONV_KEY


@pytest.mark.long
def test_a_key_is_the_same_in_another_process() -> None:
    code = (
        "import numpy as np; from tests.tuning.test_tuned_choices import CONV, key;"
        "print(key(CONV, (1, 3, 7, 7)))"
    )
    environment = {"PYTHONPATH": ":".join(p or "." for p in sys.path), "PYTHONHASHSEED": "77"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == CONV_KEY


def test_data_and_numbers_of_an_epilogue_are_not_part_of_its_key() -> None:
    fused = [Fused(CONV, (FusedStep(LeakyRelu(a)),)) for a in (0.1, 0.2)]
    assert key(fused[0], (1, 3, 7, 7)) == key(fused[1], (1, 3, 7, 7), weight=2 * WEIGHT)
    assert key(fused[0], (1, 3, 7, 7)) == f"{CONV_KEY} + [37:0] of 0"


def test_what_time_depends_on_is_part_of_it() -> None:
    shape = (1, 3, 7, 7)
    plane = (1, 5, 7, 7)
    keys = [
        key(CONV, shape),
        key(CONV, (1, 3, 7, 8)),
        key(CONV, shape, (5,)),
        key(CONV, shape, WEIGHT.shape, weight=None),
        key(Conv((1, 1), (0, 0, 0, 0), (1, 1)), shape),
        key(Fused(CONV, (FusedStep(Relu()),)), shape),
        key(Fused(CONV, (FusedStep(Add(), operand=0),)), shape, plane),
        key(Fused(CONV, (FusedStep(Add(), operand=0),)), shape, (1, 5, 1, 1)),
        key(Fused(CONV, (FusedStep(Add(), scalar=2.0),)), shape),
    ]
    assert len(set(keys)) == len(keys)


def test_long_attributes_are_hashed() -> None:
    def detection(last: float) -> Op:
        return YoloDetection(
            num_class=2,
            num_box=3,
            confidence_threshold=0.5,
            nms_threshold=0.5,
            biases=(*(1.0,) * 99, last),
            mask=(0, 1, 2),
            anchors_scale=(32.0,),
        )

    keys = {key(detection(v), (1, 21, 4, 4), weight=None) for v in (1.0, 2.0)}
    assert len(keys) == 2
    assert all("biases=sha256:" in k and len(k) < 400 for k in keys)


def offer(name: str, layout: Layout, cost: float) -> Candidate:
    return Candidate(name, (layout,), (layout,), lambda emitter: None, cost)


OFFERS = [
    offer("a", Layout.C4, 1.0),
    offer("b", Layout.C4, 5.0),
    offer("c", Layout.LINEAR, 3.0),
    offer("d", Layout.LINEAR, 4.0),
]


def choose(**choices: str) -> list[tuple[str, float]]:
    problem = make_problem(node(Relu(), (1, 3, 7, 7), weight=None), LIMITS, LoweringOptions())
    forms = {"c4": form_of(OFFERS[0]), "linear": form_of(OFFERS[2])}
    by_key = {choice_key(problem_key(problem), forms[f]): name for f, name in choices.items()}
    return [(c.name, c.cost) for c in chosen(OFFERS, problem, by_key)]


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, [("a", 1.0), ("b", 5.0), ("c", 3.0), ("d", 4.0)]),
        ({"c4": "b"}, [("b", 1.0), ("c", 3.0), ("d", 4.0)]),
        ({"c4": "a", "linear": "d"}, [("a", 1.0), ("d", 3.0)]),
        ({"c4": "gone"}, [("a", 1.0), ("b", 5.0), ("c", 3.0), ("d", 4.0)]),
        ({"linear": "a"}, [("a", 1.0), ("b", 5.0), ("c", 3.0), ("d", 4.0)]),
    ],
)
def test_a_choice_keeps_one_candidate_of_its_form(
    choices: dict[str, str], expected: list[tuple[str, float]]
) -> None:
    assert choose(**choices) == expected


def test_lowering_takes_the_choice() -> None:
    conv = node(CONV, (1, 3, 7, 7))
    every = candidates(conv, LIMITS, LoweringOptions())
    for wanted in every:
        choices = {choice_key(CONV_KEY, form_of(wanted)): wanted.name}
        found = candidates(conv, LIMITS, LoweringOptions(choices=choices))
        assert [c.name for c in found] == [wanted.name]
    forced = LoweringOptions(choices=choices, algorithm=every[0].name)
    assert [c.name for c in candidates(conv, LIMITS, forced)] == [every[0].name]


def test_a_problem_that_two_layers_pose_is_one_job() -> None:
    convs = [node(CONV, (1, 3, 7, 7)) for _ in range(2)]
    relu = node(Relu(), (1, 3, 7, 7), weight=None)
    (job,) = find_jobs([convs[0], relu, convs[1]], LIMITS, LoweringOptions())
    assert (job.key, job.layers) == (CONV_KEY, ["Conv", "Conv"])
    (contest,) = job.contests
    offers = candidates(convs[0], LIMITS, LoweringOptions())
    assert contest.names == tuple(c.name for c in sorted(offers, key=lambda c: c.cost))
    assert job.before(contest, {}) == contest.names[0]
    assert job.before(contest, {job.choice_key(contest): contest.names[-1]}) == contest.names[-1]
    assert job.before(contest, {job.choice_key(contest): "gone"}) == contest.names[0]
