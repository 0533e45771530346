"""Random programs of branches and loops, known and unknown, against Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import model, session
from tests.formats.coreml.test_control_flow import adds, branch, constant, copy, end, less, loop
from tests.helpers import shared_device

BLOBS = "abcd"
#: A statement: its name, and what it needs.
Statement = tuple[Any, ...]


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def program(rng: random.Random, depth: int, in_loop: bool) -> tuple[list[Any], list[Statement]]:
    """Layers, and the statements that they stand for."""
    layers: list[Any] = []
    statements: list[Statement] = []
    for number in range(rng.randint(1, 4)):
        kind, blob, other = rng.random(), rng.choice(BLOBS), rng.choice(BLOBS)
        flag = f"flag {rng.random()} {number}"
        if kind < 0.35 or depth == 0:
            by = rng.choice([1, 2, -1])
            layers += adds(blob, by)
            statements.append(("add", blob, by))
        elif kind < 0.5 and blob != other:
            layers.append(copy(blob, other))
            statements.append(("copy", blob, other))
        elif kind < 0.7:
            limit = rng.randint(-3, 6)
            (yes, then), (no, otherwise) = (program(rng, depth - 1, in_loop) for _ in range(2))
            both = rng.random() < 0.6
            layers += [less(blob, limit, flag), branch(flag, yes, no if both else None)]
            statements.append(("if", blob, limit, then, otherwise if both else []))
        elif kind < 0.9:
            body, inner = program(rng, depth - 1, True)
            most, limit = rng.choice([1, 2, 4, 7]), rng.randint(-2, 9)
            if rng.random() < 0.5:
                limit = 1 << 20
                layers.append(loop(body, most=most))
            else:
                test = [less(blob, limit, flag)]
                layers.append(loop(body, test=test, variable=flag, most=most))
            statements.append(("loop", blob, limit, most, inner))
        elif in_loop:
            word = rng.choice(["loopBreak", "loopContinue"])
            layers.append(end(word))
            statements.append((word,))
            break
    return layers, statements


def execute(statements: list[Statement], held: dict[str, int]) -> None:
    for word, *rest in statements:
        if word == "add":
            held[rest[0]] += rest[1]
        elif word == "copy":
            held[rest[1]] = held[rest[0]]
        elif word == "if":
            blob, limit, then, otherwise = rest
            execute(then if held[blob] < limit else otherwise, held)
        elif word == "loop":
            _rounds(*rest, held)
        else:
            raise _Break if word == "loopBreak" else _Continue


def _rounds(blob: str, limit: int, most: int, body: list[Statement], held: dict[str, int]) -> None:
    for _ in range(most):
        if held[blob] >= limit:
            return
        try:
            execute(body, held)
        except _Continue:
            continue
        except _Break:
            return


@pytest.mark.long
@pytest.mark.parametrize("backend", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_random_programs(backend: str, pytestconfig: pytest.Config) -> None:
    count = 60 if backend == "numpy" else 15
    for seed in range(count * (20 if pytestconfig.getoption("--slow") else 1)):
        rng = random.Random(seed)
        layers, statements = program(rng, 3, False)
        held = {blob: rng.randint(-3, 3) for blob in BLOBS}
        known = [blob for blob in BLOBS if rng.random() < 0.4]
        start = [constant(f"{b} first", held[b]) for b in known]
        start += [copy(f"{b} first", b) for b in BLOBS]
        feeds = {f"{b} first": np.float32([held[b]]) for b in BLOBS if b not in known}
        message = model([*start, *layers], dict.fromkeys(feeds, (1,)), list(BLOBS))
        execute(statements, held)
        with session(message, "numpy" if backend == "numpy" else shared_device()) as s:
            made = s.run(feeds)
        assert {b: int(made[b][0]) for b in BLOBS} == held, seed
