"""Barriers stand where hazards are, nowhere else; submits are bounded; the checker finds faults."""

import dataclasses
import random

import pytest

from vknn.graph import TensorType
from vknn.lowering.assemble.barriers import SUBMIT_BOUNDS, add_barriers, cut_submits
from vknn.lowering.assemble.check import PlanError, check_plan
from vknn.plan import (
    Access,
    Barrier,
    Binding,
    Buffer,
    Copy,
    DeviceLimits,
    Dispatch,
    Fill,
    Plan,
    Port,
    Role,
)


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


def meet(first, second):
    return (
        first.role is second.role
        and first.offset < second.offset + second.nbytes
        and second.offset < first.offset + first.nbytes
    )


@pytest.mark.parametrize("seed", range(30))
def test_barriers_are_those_of_comparing_each_range_with_each(seed):
    """Also of ranges that lie in, beside and across one another, and of empty ones."""
    rng = random.Random(seed)
    roles = (Role.ACTIVATION, Role.OUTPUT)
    made = [
        Buffer(f"b{i}", rng.choice(roles), rng.randrange(0, 400, 4), rng.randrange(0, 80, 4))
        for i in range(30)
    ]
    numbers = range(len(made))
    commands = [
        dispatch(rng.sample(numbers, rng.randrange(3)), rng.sample(numbers, rng.randrange(3)))
        for _ in range(40)
    ]
    steps, read, written = [], [], []
    for command in commands:
        touched = {access: [] for access in (Access.READ, Access.WRITE)}
        for binding in command.bindings:
            touched[binding.access].append(binding.buffer)
        reads, writes = touched.values()
        found = {a for a in reads for b in written if meet(made[a], made[b])}
        found |= {a for a in writes for b in written + read if meet(made[a], made[b])}
        if found:
            steps.append(Barrier(tuple(sorted(found))))
            read, written = [], []
        steps.append(command)
        read += reads
        written += writes
    assert add_barriers(commands, made) == steps
    assert any(isinstance(step, Barrier) for step in steps)


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


def parts():
    """A buffer of two parts, behind an input and an output."""
    return [
        *buffers(2),
        Buffer("c", Role.ACTIVATION, 128, 64),
        Buffer("c//a", Role.ACTIVATION, 128, 32),
        Buffer("c//b", Role.ACTIVATION, 160, 32),
    ]


def scheduled(commands, made):
    return small_plan(add_barriers(commands, made), made)


def test_checker_accepts_a_whole_made_of_its_parts():
    made = parts()
    commands = [dispatch((0,), (3,)), dispatch((3,), (4,)), dispatch((2,), (1,))]
    plan = scheduled(commands, made)
    check_plan(plan)
    # The second part is written while the first is read: no hazard but the one between them.
    assert sum(isinstance(s, Barrier) for s in plan.steps) == 2
    copied = [dispatch((0,), (3,)), Copy(0, 2, 32, 0, 32), dispatch((2,), (1,))]
    check_plan(scheduled(copied, made))


def test_checker_finds_a_part_that_nobody_wrote():
    made = parts()
    with pytest.raises(PlanError, match="'c' was overwritten or never written"):
        check_plan(scheduled([dispatch((0,), (3,)), dispatch((2,), (1,))], made))
    commands = [dispatch((0,), (3,)), Copy(0, 2, 16, 0, 32), dispatch((2,), (1,))]
    with pytest.raises(PlanError, match="'c' was overwritten or never written"):
        check_plan(scheduled(commands, made))


def test_checker_finds_a_part_written_over_another():
    made = parts()
    made[4] = Buffer("c//b", Role.ACTIVATION, 144, 48)
    commands = [dispatch((0,), (3,)), dispatch((0,), (4,)), dispatch((2,), (1,))]
    with pytest.raises(PlanError, match="'c//b' is written over 'c//a'"):
        check_plan(scheduled(commands, made))


def test_windows_onto_a_tensor_may_be_written_one_over_another():
    made = [*parts(), Buffer("c//+16", Role.ACTIVATION, 144, 48)]
    commands = [dispatch((0,), (2,)), dispatch((0,), (5,)), dispatch((2,), (1,))]
    check_plan(scheduled(commands, made))
    made[5] = Buffer("c//a//+16", Role.ACTIVATION, 144, 48)
    with pytest.raises(PlanError, match="is written over 'c'"):
        check_plan(scheduled(commands, made))


def test_checker_finds_a_stranger_in_a_part():
    made = [*parts(), Buffer("u", Role.ACTIVATION, 160, 16)]
    commands = [dispatch((0,), (3,)), dispatch((0,), (4,)), dispatch((0,), (5,))]
    with pytest.raises(PlanError, match="'c' was overwritten"):
        check_plan(scheduled([*commands, dispatch((2,), (1,))], made))


def test_checker_finds_reads_and_writes_of_shifted_bytes():
    made = buffers(4)
    made[3] = Buffer("u", Role.ACTIVATION, 144, 64)
    commands = [dispatch((0,), (2,)), dispatch((2,), (3,)), dispatch((3,), (1,))]
    with pytest.raises(PlanError, match="read and written at once"):
        check_plan(scheduled(commands, made))


def test_checker_finds_a_copy_beyond_the_end():
    with pytest.raises(PlanError, match="beyond the end"):
        check_plan(scheduled([Copy(0, 1, 48, 0, 32)], buffers(2)))


def test_checker_finds_what_cannot_be_bound():
    made = [Buffer("x", Role.INPUT, 0, 64), Buffer("y", Role.OUTPUT, 48, 64)]
    plan = scheduled([dispatch((0,), (1,))], made)
    check_plan(plan, DeviceLimits(storage_alignment=16, texel_alignment=16))
    with pytest.raises(PlanError, match="cannot bind"):
        check_plan(plan, DeviceLimits())


def test_copies_side_by_side_are_no_hazard_but_halves_of_a_word_are():
    made = buffers(3)
    assert not barriers([Copy(0, 2, 32), Copy(1, 2, 32, 0, 32)], made)
    assert not barriers([Copy(0, 2, 32), Copy(2, 1, 32, 32)], made)
    assert barriers([Copy(0, 2, 30), Copy(1, 2, 34, 0, 30)], made)
    assert barriers([Copy(0, 2, 32), Copy(2, 1, 32, 16)], made)


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
    from vknn.lowering.assemble.check import _check_barriers

    plan = small_plan(add_barriers(commands, made), made)
    _check_barriers(plan)


def test_every_plan_that_a_test_makes_is_checked(monkeypatch):
    """The suite's own fixture: a planner that forgets barriers does not get past it."""
    import sys

    from vknn.graph import GraphBuilder
    from vknn.lowering import lower
    from vknn.ops.elementwise import Exp
    from vknn.ops.movement.shape import Transpose

    monkeypatch.setattr(
        sys.modules["vknn.lowering.assemble.assembly"],
        "add_barriers",
        lambda commands, _: list(commands),
    )
    g = GraphBuilder()
    y = g.add(Transpose((1, 0)), g.add(Exp(), g.input("x", TensorType((3, 5)))))
    with pytest.raises(PlanError, match="no barrier"):
        lower(g.finish({"y": y}), DeviceLimits())
