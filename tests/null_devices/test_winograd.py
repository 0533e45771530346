"""What compilers of GPUs make of Winograd's kernels: whole tiles of 6x6 pixels spilled there."""

from __future__ import annotations

import pytest
from tests.null_devices.jobs import do, named_devices

pytestmark = pytest.mark.long  # processes of their own, drivers to be fetched

#: Device -> least subgroups in flight as the driver counts them (RADV counts a wave of 64 lanes
#: as two on RDNA), most bytes of code. M1's driver does not count subgroups.
BOUNDS = {
    "navi21": (8, 16 << 10),
    "polaris10": (2, 16 << 10),
    "nv172": (16, 32 << 10),
    "a740": (6, 16 << 10),
    "m1": (0, 16 << 10),
}
#: Channels in and out, height and width: of each tile of a lane that estimates choose.
CONVOLUTIONS = ((64, 64, 112), (64, 64, 56), (32, 32, 28), (20, 20, 14), (7, 5, 11))
TRANSFORMS = {"convolution/winograd_input", "convolution/winograd_output"}
#: By precision.
PRODUCTS = {"fp32": "convolution/winograd_product", "fp16": "convolution/conv"}


@pytest.mark.parametrize("device", named_devices([*BOUNDS], ("navi21", "nv172")))
def test_nothing_spills(device: str) -> None:
    waves, code = BOUNDS[device]
    jobs = [
        {
            "kind": "convolutions",
            "name": f"{algorithm} {precision}",
            "algorithm": algorithm,
            "precision": precision,
            "arithmetic": "fp32",
            "convolutions": CONVOLUTIONS,
        }
        for algorithm in ("winograd23", "winograd43")
        for precision in ("fp32", "fp16")
    ]
    for found in do(device, jobs):
        for sizes, dispatches in zip(CONVOLUTIONS, found["dispatches"], strict=True):
            kernels = TRANSFORMS | {PRODUCTS[found["name"].split()[1]]}
            entries = [entry for entry in dispatches if entry["kernel"] in kernels]
            assert {entry["kernel"] for entry in entries} == kernels
            for entry in entries:
                context = f"{found['name']} of {sizes}: {entry}"
                assert not entry["spills"] and not entry["scratch"], context
                assert entry["waves"] is None or entry["waves"] >= waves, context
                assert 0 < entry["code"] <= code, context
