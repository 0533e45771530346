"""Kernel rules are found by family, and a family is imported when an op of it is lowered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vknn.graph import Op, op_classes
from vknn.lowering.kernels import find_rule, import_all
from vknn.lowering.kit import registry
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import rule_for

LOADED = """
import importlib, sys
from vknn.lowering.kernels import find_rule
prefix = "vknn.lowering.kernels."
for module, op in zip(sys.argv[1::2], sys.argv[2::2]):
    rule = find_rule(getattr(importlib.import_module(f"vknn.ops.{module}"), op))
    families = {m.removeprefix(prefix).split(".")[0] for m in sys.modules if m.startswith(prefix)}
    found = rule.__module__.removeprefix(prefix) if rule else "none"
    print(found, "detection" in families, "recurrent" in families)
"""


def loaded(*ops: tuple[str, str]) -> list[str]:
    """The module of each op's rule, and whether two families are imported by then: in one process,
    which imports nothing else before."""
    names = [name for op in ops for name in op]
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.long
def test_a_family_is_imported_when_an_op_of_it_is_looked_up() -> None:
    """Convolutions of quantized integers are ops of the family quantized, whose rule is in another;
    every family is looked through for an op that has no rule."""
    assert loaded(
        ("quantized.convolution", "QuantizedConv"),
        ("convolution.conv", "Conv"),
        ("detection.ssd", "PriorBox"),
        ("text.skip_gram", "SkipGram"),
    ) == [
        "convolution.rule False False",
        "convolution.rule False False",
        "detection.ssd True False",
        "none True True",
    ]


def test_every_op_finds_the_rule_that_is_registered_for_it() -> None:
    import_all()
    ops = [op for op in op_classes() if op.__module__.startswith("vknn.ops.")]
    assert [find_rule(op) for op in ops] == [rule_for(op) for op in ops]
    assert any(rule_for(op) is None for op in ops) and any(map(rule_for, ops))


def test_an_op_of_somebody_else_has_none() -> None:
    class Foreign(Op):
        def infer(self, *inputs):  # type: ignore[no-untyped-def]
            return inputs

        def reference(self, *inputs):  # type: ignore[no-untyped-def]
            return inputs

    assert find_rule(Foreign) is None


def test_a_module_whose_import_was_interrupted_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules are registered once more; another rule of the same op is a mistake."""

    class Own(Op):
        pass

    def rule(problem: Problem) -> list[Candidate]:
        return []

    def other(problem: Problem) -> list[Candidate]:
        return []

    monkeypatch.setattr(registry, "_RULES", {})
    for _ in range(2):
        registry.lowers(Own)(rule)
    with pytest.raises(ValueError, match="Own has two lowering rules"):
        registry.lowers(Own)(other)
    assert registry.rule_for(Own) is rule
