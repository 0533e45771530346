"""Kernel rules, a package or module a family.

The families that most networks need are imported with vknn.lowering, before anybody waits for an
answer; the others when an op of theirs is lowered.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil

from vknn.graph import Op
from vknn.lowering.kit.registry import Rule, rule_for

_OPS = "vknn.ops."
#: Imported at once. Any other family is found all the same, only later.
_COMMON = (
    "convolution", "elementwise", "matmul", "movement", "normalization", "pooling", "reduction",
)  # fmt: skip


def find_rule(op: type[Op]) -> Rule | None:
    """The rule of an op class, or None: the op runs on the host.

    Most rules are in the family that their op's module is of; where one is not, every family is
    imported. Importing all of them takes longer than planning most networks.
    """
    rule = rule_for(op)
    if rule is None and op.__module__.startswith(_OPS):
        _import_family(op.__module__.removeprefix(_OPS).split(".")[0])
        rule = rule_for(op)
    if rule is None:
        import_all()
        rule = rule_for(op)
    return rule


def import_common() -> None:
    """Registration of the rules of the families that most networks need."""
    for family in _COMMON:
        _import_family(family)


@functools.cache
def import_all() -> None:
    """Registration of the rules of every family."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)


@functools.cache
def _import_family(family: str) -> None:
    name = f"{__name__}.{family}"
    if importlib.util.find_spec(name) is None:
        return
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
        importlib.import_module(module.name)
