"""Plans stay as they are: digests of the plans of every op case and of the benchmark networks.

Names apart (see ``plan_texts``). After a wanted change of plans:
VKNN_UPDATE_GOLDEN=1 pytest tests/lowering/test_plan_texts.py, and say in the commit what changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.lowering import plan_texts
from tests.peers.ncnn.networks import NETWORKS

from vknn.formats.ncnn.random_weights import write_random_weights

pytestmark = pytest.mark.long

GOLDEN = Path(__file__).parent / "golden" / "plan_digests.json"


def check(key: str, digest: str) -> None:
    known = json.loads(GOLDEN.read_text())
    if os.environ.get("VKNN_UPDATE_GOLDEN"):
        known[key] = digest
        GOLDEN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    assert known.get(key) == digest, f"the plans of {key} have changed; see the module's docstring"


def digest_of(texts: Iterable[tuple[str, str]]) -> str:
    whole = hashlib.sha256()
    for key, text in texts:
        whole.update(f"{key}\n{plan_texts.without_names(text)}\n".encode())
    return whole.hexdigest()[:32]


@pytest.mark.parametrize("target", plan_texts.TARGETS)
@pytest.mark.parametrize("family", plan_texts.FAMILIES)
def test_plans_of_op_cases(family: str, target: str) -> None:
    check(f"{family} on {target}", digest_of(plan_texts.of_family(family, target)))


@pytest.mark.parametrize("name", NETWORKS)
def test_plans_of_networks(name: str, shared: Path, tmp_path: Path) -> None:
    param, weights = shared / "benchmark" / "ncnn" / f"{name}.param", tmp_path / f"{name}.bin"
    write_random_weights(param, weights)
    graph = plan_texts.network(param, weights, NETWORKS[name])
    for target, text in plan_texts.of_network(graph):
        check(f"{name} on {target}", digest_of([(target, text)]))
