"""Kernel rules are found by family, and a family is imported when an op of it is lowered."""

from __future__ import annotations

import subprocess
import sys

from vknn.graph import Op, op_classes
from vknn.lowering.kernels import find_rule, import_all
from vknn.lowering.kit.registry import rule_for

LOADED = """
import sys
from vknn.lowering.kernels import find_rule
from vknn.ops.{module} import {op}
rule = find_rule({op})
prefix = "vknn.lowering.kernels."
families = {{m.removeprefix(prefix).split(".")[0] for m in sys.modules if m.startswith(prefix)}}
found = rule.__module__.removeprefix(prefix) if rule else "none"
print(found, "detection" in families, "recurrent" in families)
"""


def loaded(module: str, op: str) -> list[str]:
    code = LOADED.format(module=module, op=op)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_only_the_ops_own_family_is_imported() -> None:
    assert loaded("convolution.conv", "Conv") == ["convolution.rule", "False", "False"]
    assert loaded("detection.ssd", "PriorBox") == ["detection.ssd", "True", "False"]


def test_a_rule_in_another_family_is_found() -> None:
    """Convolutions of quantized integers are ops of the family quantized."""
    assert loaded("quantized.convolution", "QuantizedConv") == [
        "convolution.rule",
        "False",
        "False",
    ]


def test_every_family_is_looked_through_for_an_op_without_a_rule() -> None:
    assert loaded("text.skip_gram", "SkipGram") == ["none", "True", "True"]


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
