"""Every op case by every candidate on drivers of GPUs that are not here. See test_models.py."""

from __future__ import annotations

import dataclasses

import pytest
from tests.lowering.op_cases import with_epilogues
from tests.lowering.plan_texts import MATRICES
from tests.null_devices.gpu_cases import FAMILIES
from tests.null_devices.jobs import do, ops_job, selected_devices

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.plan import CooperativeMatrix
from vknn.runtime.spirv import glsl

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched


#: Devices on which no candidate spills, picked or not.
SPILL_FREE = ("navi21",)


@pytest.mark.slow
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("mode", ["fp32", "fp16", "fp16-arithmetic", "bf16"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("device", selected_devices())
def test_every_candidate(device: str, family: str, mode: str) -> None:
    (found,) = do(device, [ops_job(family, mode)], 1800)
    assert found["candidates"] > 0
    if device in SPILL_FREE:
        spilling = [b for b in found["below"] if ": spills {" in b or ": scratch {" in b]
        assert spilling == []


#: A GPU that has everything, int8 matrices too.
ABLE = dataclasses.replace(
    MATRICES,
    max_storage_buffers=8,
    features=MATRICES.features | {"int8_arithmetic"},
    cooperative=(*MATRICES.cooperative, CooperativeMatrix(16, 16, 16, "int8", "int32")),
)
#: Not of a single operator on a GPU: between operators, at ports, for CPUs, of measurements.
NOT_REACHED = {"movement/bytes", "movement/port", "matmul/tile_subgroup"}


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_cases_reach_every_kernel() -> None:
    reached = set[str]()
    for make in FAMILIES.values():
        cases = list(make())
        for case in [*cases, *with_epilogues(cases)]:
            graph = case.graph()
            for precision in ("fp32", "fp16", "bf16"):
                options = LoweringOptions(precision=precision)
                for found in candidates(graph.nodes[0], ABLE, options):
                    wanted = dataclasses.replace(
                        options, algorithm=found.name, layout=found.outputs[0]
                    )
                    reached |= {d.kernel for d in lower(graph, ABLE, wanted).dispatches}
    kernels = {k for k in glsl.kernels(glsl.source_root()) if not k.startswith("profiling/")}
    assert kernels - reached == NOT_REACHED
