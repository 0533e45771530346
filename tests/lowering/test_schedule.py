"""Barriers stand where hazards are, nowhere else; submits are bounded; the checker finds faults."""

import dataclasses
import random

import pytest

from vknn.graph import TensorType
from vknn.lowering.check import PlanError, check_plan
from vknn.lowering.schedule import SUBMIT_BOUNDS, add_barriers, cut_submits
from vknn.plan import Access, Barrier, Binding, Buffer, Copy, Dispatch, Fill, Plan, Port, Role


def dispatch(reads=(), writes=(), flops=0, nbytes=0):
    bindings = [Binding(i, Access.READ) for i in reads] + [Binding(i, Access.WRITE) for i in writes]
    return Dispatch("k", (), (), b"", tuple(bindings), (1, 1, 1), flops=flops, nbytes=nbytes)


def buffers(count, size=64, role=Role.ACTIVATION):
    return [Buffer(f"b{i}", role, i * size, size) for i in range(count)]


def barriers(commands, made):
    return [i for i, s in enumerate(add_barriers(commands, made)) if isinstance(s, Barrier)]


@pytest.mark.parametrize(
    ("first", "second", "needed"),
    [
        (dispatch((0,), (1,)), dispatch((1,), (2,)), True),  # read after write
        (dispatch((0,), (1,)), dispatch((2,), (0,)), True),  # write after read
        (dispatch((0,), (1,)), dispatch((2,), (1,)), True),  # write after write
        (dispatch((0,), (1,)), dispatch((0,), (2,)), False),  # read after read
        (dispatch((0,), (1,)), dispatch((2,), (3,)), False),
        (Fill(0), dispatch((0,), (1,)), True),
        (Copy(0, 1, 4), Copy(0, 2, 4), False),
        (Copy(0, 1, 4), Copy(1, 2, 4), True),
    ],
)
def test_a_barrier_stands_only_at_a_hazard(first, second, needed):
    assert bool(barriers([first, second], buffers(4))) is needed


def test_hazards_are_found_through_shared_bytes():
    made = [
        Buffer("a", Role.ACTIVATION, 0, 64),
        Buffer("b", Role.ACTIVATION, 32, 64),
        *buffers(4)[2:],
    ]
    assert barriers([dispatch((2,), (0,)), dispatch((3,), (1,))], made)


def test_equal_offsets_in_different_arenas_do_not_conflict():
    made = [Buffer("a", Role.INPUT, 0, 64), Buffer("b", Role.ACTIVATION, 0, 64)]
    assert not barriers([dispatch((0,), ()), dispatch((), (1,))], made)


def test_one_barrier_serves_all_commands_behind_it():
    commands = [
        dispatch((0,), (1,)),
        dispatch((0,), (2,)),
        dispatch((1,), (3,)),
        dispatch((2,), (4,)),
    ]
    assert barriers(commands, buffers(5)) == [2]


def test_submits_are_cut_at_barriers_when_the_work_exceeds_the_bound():
    flops = int(SUBMIT_BOUNDS["cpu"][0] * 0.6)
    commands = [dispatch((i,), (i + 1,), flops) for i in range(5)]
    steps = add_barriers(commands, buffers(6))
    ends = cut_submits(steps, "cpu")
    assert ends[-1] == len(steps)
    assert len(ends) == 3
    assert all(isinstance(steps[e], Barrier) for e in ends[:-1])


def small_plan(steps, made, inputs=(0,), outputs=(1,)):
    type_ = TensorType((16,))
    return Plan(
        "p",
        tuple(made),
        dict.fromkeys(Role, 4096),
        tuple(steps),
        (len(steps),),
        {f"x{i}": Port(i, type_) for i in inputs},
        {f"y{i}": Port(i, type_) for i in outputs},
    )


def test_checker_accepts_a_sound_plan():
    made = buffers(3)
    steps = add_barriers([dispatch((0,), (2,)), dispatch((2,), (1,))], made)
    check_plan(small_plan(steps, made))


def test_checker_finds_a_missing_barrier():
    plan = small_plan([dispatch((0,), (2,)), dispatch((2,), (1,))], buffers(3))
    with pytest.raises(PlanError, match="no barrier"):
        check_plan(plan)


def test_checker_finds_overwritten_data():
    made = [
        *buffers(2),
        Buffer("t", Role.ACTIVATION, 128, 64),
        Buffer("u", Role.ACTIVATION, 160, 64),
    ]
    commands = [dispatch((0,), (2,)), dispatch((0,), (3,)), dispatch((2,), (1,))]
    with pytest.raises(PlanError, match="overwritten"):
        check_plan(small_plan(add_barriers(commands, made), made))


def test_checker_finds_reads_of_nothing():
    made = buffers(3)
    with pytest.raises(PlanError, match="never written"):
        check_plan(small_plan([dispatch((2,), (1,))], made))


def test_checker_finds_a_buffer_behind_its_arena():
    made = buffers(2)
    plan = small_plan([dispatch((0,), (1,))], made)
    with pytest.raises(PlanError, match="arena"):
        check_plan(dataclasses.replace(plan, arenas=dict.fromkeys(Role, 100)))


@pytest.mark.parametrize("seed", range(20))
def test_scheduled_random_commands_have_no_open_hazard(seed):
    rng = random.Random(seed)
    made = [
        Buffer(f"b{i}", Role.ACTIVATION, rng.randrange(0, 2048, 16), rng.randrange(16, 512, 16))
        for i in range(12)
    ]
    commands = [
        dispatch(rng.sample(range(12), rng.randint(0, 3)), rng.sample(range(12), 1))
        for _ in range(40)
    ]
    from vknn.lowering.check import _check_barriers

    plan = small_plan(add_barriers(commands, made), made)
    _check_barriers(plan)


def test_every_plan_that_a_test_makes_is_checked(monkeypatch):
    """The suite's own fixture: a planner that forgets barriers does not get past it."""
    import sys

    from vknn.graph import GraphBuilder
    from vknn.lowering import lower
    from vknn.ops.elementwise import Exp
    from vknn.ops.movement import Transpose
    from vknn.plan import DeviceLimits

    monkeypatch.setattr(
        sys.modules["vknn.lowering.assembly"], "add_barriers", lambda commands, _: list(commands)
    )
    g = GraphBuilder()
    y = g.add(Transpose((1, 0)), g.add(Exp(), g.input("x", TensorType((3, 5)))))
    with pytest.raises(PlanError, match="no barrier"):
        lower(g.finish({"y": y}), DeviceLimits())
