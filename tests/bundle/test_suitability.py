"""Plans of bundles that a device suits, and what it lacks for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.bundle.rebuilt import (
    digits,
    digits_with_example,
    rebuilt,
    with_field,
)

from vknn.bundle import Bundle, restored, schema, trial
from vknn.bundle.suitability import lacking
from vknn.bundle.trial import suiting_plans
from vknn.errors import (
    VknnError,
)
from vknn.plan import CooperativeMatrix
from vknn.runtime import Snapshot, open_device

pytestmark = pytest.mark.glsl


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_with_example(tmp_path_factory.mktemp("net"))


@pytest.mark.device
def test_a_device_that_suits_no_plan(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle.open(net)
    with pytest.raises(VknnError, match=r"phone suits no plan: plan 0 \(generic\) needs .*generic"):
        suiting_plans(bundle.plans[:1], replace(able(), max_storage_buffers=1))
    monkeypatch.setattr(restored, "lacking", lambda plan, snapshot: ["legs"])
    with (
        open_device("auto") as device,
        pytest.raises(VknnError, match="which lacks legs: choose another with --plan"),
    ):
        trial.try_plan(bundle, bundle.plans[0], device)


def able() -> Snapshot:
    """A device that can run the demo model's plans."""
    features = frozenset(("subgroup_shuffle", "subgroup_arithmetic"))
    return Snapshot(
        name="phone", features=features, subgroup_size=8, max_storage_buffers=8,
        shared_memory=32768, max_group_size=(256, 256, 64), max_group_invocations=256,
        storage_alignment=16, texel_alignment=16,
    )  # fmt: skip


def test_what_a_device_lacks() -> None:
    generic, llvmpipe = Bundle.of(digits("generic", "llvmpipe")).plans
    assert lacking(generic, Snapshot()) == [], "the generic plan needs what Vulkan 1.1 has"
    assert lacking(generic, able()) == lacking(llvmpipe, able()) == []
    for plan, change, text in [
        (llvmpipe, {"features": frozenset()}, "subgroup_shuffle"),
        (llvmpipe, {"subgroup_size": 32}, "subgroups of 8 (it has 32)"),
        (llvmpipe, {"texel_alignment": 1024}, "texel views at multiples of 256 (it wants 1024)"),
        (generic, {"max_storage_buffers": 1}, "storage buffers of a pipeline (it has 1)"),
        (generic, {"max_group_invocations": 32}, "128 lanes of a workgroup (it has 32)"),
        (generic, {"max_group_size": (8, 256, 64)}, "lanes of a workgroup in x (it has 8)"),
        (generic, {"max_storage_buffer_range": 99}, "bytes of a storage buffer (it has 99)"),
        (generic, {"max_push_constants": 16}, "bytes of push constants (it has 16)"),
        (generic, {"shared_memory": 64}, "bytes of shared memory (it has 64)"),
        (generic, {"api_version": (1, 0, 3)}, "Vulkan 1.1 (it has 1.0.3)"),
    ]:
        found = lacking(plan, replace(able(), **change))  # type: ignore[arg-type]
        assert any(text in lack for lack in found), (change, found)


def test_sizes_of_subgroups_that_vknn_run_can_ask_for() -> None:
    _, plan = Bundle.of(digits("generic", "llvmpipe")).plans
    other = replace(able(), subgroup_size=32)
    assert lacking(plan, other, program=True) == ["subgroups of 8 (it has 32)"]
    for change in (
        {"api_version": (1, 3, 0)},
        {"extensions": frozenset(("VK_EXT_subgroup_size_control",))},
    ):
        able_to_ask = replace(other, **change)  # type: ignore[arg-type]
        [told] = lacking(plan, able_to_ask)
        assert told.startswith("subgroups of 8 (it has 32; vknn-run alone asks for 8")
        assert lacking(plan, able_to_ask, program=True) == []
        assert suiting_plans([plan], able_to_ask) == ([], [plan])
        lacks = replace(able_to_ask, max_push_constants=4)
        with pytest.raises(VknnError, match="suits no plan"):
            suiting_plans([plan], lacks)


def test_rounds_of_loops() -> None:
    """As the runner has it: llvmpipe alone ends loops in silence."""
    bundle = Bundle.of(digits("generic", "llvmpipe"))
    longer = Bundle.of(with_field(bundle, schema.PLAN, "loop_rounds", 1 << 20)).plans[0]
    assert lacking(longer, able()) == []
    own = replace(able(), name="llvmpipe (LLVM 15, 256 bits)")
    assert lacking(longer, own) == ["1,048,576 rounds of loops (it has 65,535)"]
    assert lacking(bundle.plans[0], own) == []


def test_features_of_which_vknn_knows_nothing() -> None:
    bundle = Bundle.of(digits("generic", "llvmpipe"))
    features = bundle.tables[schema.PLAN]["features"][0] | np.uint64(schema.Feature.FLOAT64)
    plan = Bundle.of(with_field(bundle, schema.PLAN, "features", features)).plans[0]
    assert lacking(plan, able()) == ["float64 (vknn-run tells whether it has that)"]
    assert lacking(plan, able(), program=True) == []


def test_cooperative_matrices_are_needed_by_their_sizes() -> None:
    bundle = Bundle.of(digits("generic", "llvmpipe"))
    plans = bundle.tables[schema.PLAN].copy()
    plans[0]["matrices"], plans[0]["features"] = 1, plans[0]["features"] | np.uint64(0x300)
    plans[1]["first_matrices"] = 1
    rows = np.array([(16, 16, 8, 0, 1, 0)], schema.MATRIX.dtype).tobytes()
    plan = Bundle.of(rebuilt(bundle, {"plan": plans.tobytes(), "matrix": rows})).plans[0]
    text = "products of cooperative matrices 16x16x8 of float16 into float32"
    assert {text, "cooperative_matrix", "full_subgroups"} <= set(lacking(plan, able()))
    has = able().features | {"cooperative_matrix"}
    product = CooperativeMatrix(16, 16, 8)
    assert lacking(plan, replace(able(), features=has, cooperative=(product,))) == []
