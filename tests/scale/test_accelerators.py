"""Ray's accelerators as Vulkan devices, leases, and the keeper's memory: all without Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from vknn.errors import DeviceError, InputError
from vknn.runtime.snapshot import COMPUTE, QueueFamily, Snapshot
from vknn.scale.accelerators import assigned_device, cards_of, offered
from vknn.scale.keeper import BatchProgress, Keeper
from vknn.scale.lease import Leases
from vknn.scale.shares import ErrorBound

NVIDIA, AMD, INTEL, MESA = 0x10DE, 0x1002, 0x8086, 0x10005


def card(index: int, vendor: int, pci: str | None, kind: str = "discrete", **more: Any) -> Snapshot:
    return Snapshot(
        index, f"card {index}", kind, vendor_id=vendor, pci=pci, api_version=(1, 3, 0),
        queue_families=(QueueFamily(COMPUTE),), uuid=bytes([index + 1] * 16), **more,
    )  # fmt: skip


def test_a_number_counts_in_the_order_of_addresses() -> None:
    """Vulkan lists devices in whatever order its loader finds them."""
    found = [
        card(0, NVIDIA, "0000:af:00.0"),
        card(1, MESA, None, "cpu"),
        card(2, NVIDIA, "0000:3b:00.0"),
    ]
    assert assigned_device(["0"], found) == "pci:0000:3b:00.0"
    assert assigned_device(["1"], found) == "pci:0000:af:00.0"
    assert assigned_device([" 1 ", "0"], found) == "pci:0000:af:00.0"


@pytest.mark.parametrize("vendor", [NVIDIA, AMD, INTEL])
def test_every_vendor(vendor: int) -> None:
    own = card(3, vendor, "0000:05:00.0")
    assert assigned_device(["0"], [card(0, MESA, None, "cpu"), own]) == "pci:0000:05:00.0"


def test_ray_counts_one_vendor() -> None:
    """A processor's graphics beside a card do not shift its number."""
    graphics = card(0, INTEL, "0000:00:02.0", "integrated")
    assert assigned_device(["0"], [graphics, card(1, AMD, "0000:0c:00.0")]) == "pci:0000:0c:00.0"
    assert assigned_device(["0"], [graphics]) == "pci:0000:00:02.0"


def test_several_drivers_of_one_card() -> None:
    """RADV and AMDVLK side by side list each card twice."""
    found = [
        card(0, AMD, "0000:0c:00.0"), card(1, AMD, "0000:0f:00.0"),
        card(2, AMD, "0000:0c:00.0"), card(3, AMD, "0000:0f:00.0"),
    ]  # fmt: skip
    assert [c.index for c in cards_of(found)] == [0, 1]
    assert assigned_device(["1"], found) == "pci:0000:0f:00.0"
    with pytest.raises(DeviceError, match="GPU '2'"):
        assigned_device(["2"], found)


def test_uuids_are_vulkans() -> None:
    name = "GPU-8a2b1c00-0000-0000-0000-000000000001"
    assert assigned_device([name], []) == f"uuid:{name}"


def test_slices_and_what_is_not_there() -> None:
    with pytest.raises(DeviceError, match="a MIG slice, which is no Vulkan device"):
        assigned_device(["MIG-aa-bb"], [card(0, NVIDIA, "0000:3b:00.0")])
    with pytest.raises(DeviceError, match="gave this worker no GPU"):
        assigned_device([], [])
    for wrong in ("1", "-1", "x"):
        with pytest.raises(DeviceError, match=r"card 0 \(0000:3b:00.0\): is the driver's Vulkan"):
            assigned_device([wrong], [card(0, NVIDIA, "0000:3b:00.0")])
    with pytest.raises(DeviceError, match="are none: is the driver"):
        assigned_device(["0"], [card(0, MESA, None, "cpu")])


def test_cards_without_an_address() -> None:
    found = [card(0, NVIDIA, None), card(1, NVIDIA, None)]
    assert assigned_device(["1"], found) == found[1].uuid_name


def test_devices_that_cannot_be_used_do_not_count() -> None:
    old = Snapshot(
        0, "old", "discrete", vendor_id=NVIDIA, pci="0000:01:00.0", api_version=(1, 0, 0)
    )
    assert cards_of([old]) == [] and offered([old]) == []


def test_what_a_machine_offers() -> None:
    processor, gpu = card(0, MESA, None, "cpu"), card(1, AMD, "0000:0c:00.0")
    again = card(2, AMD, "0000:0c:00.0")
    assert offered([processor]) == [processor.uuid_name]
    assert offered([processor, gpu]) == [gpu.uuid_name]
    assert len(offered([processor, gpu, again])) == 2  # two drivers: two UUIDs, two devices
    assert offered([]) == []


def test_leases() -> None:
    alive = {1, 2, 3, 4, 5}
    leases = Leases(["a", "b"], 2, is_alive=alive.__contains__)
    assert [leases.take(process) for process in (1, 2, 3, 4)] == ["a", "b", "a", "b"]
    assert leases.take(1) == "a", "it keeps what it has"
    with pytest.raises(DeviceError, match=r"a, b on this machine, 2 worker\(s\) on each"):
        leases.take(5)
    alive.discard(2)
    assert leases.take(5) == "b", "of one that ended"
    alive.discard(3)
    assert leases.take(5, without=["b"]) == "a", "another one than that which computed wrong"
    with pytest.raises(DeviceError, match=r"2 may not be used"):
        leases.take(4, without=["a", "b"])


def test_leases_of_real_processes() -> None:
    leases = Leases(["a"])
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert leases.take(other.pid) == "a"
    with pytest.raises(DeviceError, match="no device is left"):
        leases.take(os.getpid())
    other.communicate(b"\n")
    assert leases.take(os.getpid()) == "a"


def keeper(bound: str | None = None, total: int | None = 100) -> Keeper:
    return Keeper(ErrorBound.of(bound), total, rows=0, errors=0)


def test_the_keeper_counts() -> None:
    kept = keeper()
    kept.begin("d", "Card", "b1")
    kept.end("b1", BatchProgress("d", rows=3, errors={"InputError": 1}, busy=2.0, cold=1.5))
    kept.begin("d", "Card", "b2")
    kept.end("b2", BatchProgress("d", rows=4, checks=1, largest=0.5, memory=7))
    state = kept.state()
    assert (state["rows"], state["new_rows"], state["errors"]) == (8, 8, {"InputError": 1})
    device = state["devices"]["d"]
    assert (device["name"], device["rows"], device["checks"]) == ("Card", 7, 1)
    assert (device["largest_error"], device["cold_seconds"], device["deaths"]) == (0.5, 1.5, 0)
    assert state["memory"] == 7


def test_a_batch_that_killed_twice_is_computed_alone() -> None:
    kept = keeper()
    alone = []
    for _ in range(3):
        kept.arrive("w")
        alone.append(kept.begin("d", "Card", "w:b")["alone"])
    assert alone == [False, False, True]
    assert kept.state()["devices"]["d"]["deaths"] == 2
    assert not kept.begin("d", "Card", "w:other")["alone"]


def test_a_record_that_killed_twice_is_given_up() -> None:
    """The batch, which is under way as well, is not to blame."""
    kept = keeper()
    kept.meet("d", "Card", "w")
    deaths = []
    for _ in range(4):
        kept.arrive("w")
        kept.begin("d", "Card", "w:b")
        deaths.append(kept.begin_record("d", "w:b:1"))
    assert deaths == [0, 1, 2, 2]
    assert kept.deadly_devices("w:b:1") == ["d (Card)"]
    assert kept.begin("d", "Card", "w:b")["deaths"] == 1, "it gave the record up, and ended"
    assert kept.begin_record("d", "w:b:2") == 0
    kept.end_record("w:b:2")
    kept.arrive("w")
    assert kept.begin_record("d", "w:b:2") == 0
    assert kept.state()["devices"]["d"]["deaths"] == 4 and kept.retired() == {}


def test_a_device_on_which_three_records_died_is_retired() -> None:
    kept = keeper()
    kept.meet("d", "Card", "w")
    for name in ("w:b:1", "w:b:2", "w:b:3"):
        kept.arrive("w")
        kept.begin_record("d", name)
        kept.begin_record("e", f"v{name}")
        kept.end_record(f"v{name}")
    kept.arrive("w")
    assert kept.retired() == {"d": "processes ended at 3 different records"}
    assert kept.begin("d", "Card", "b")["retired"] == "processes ended at 3 different records"
    assert kept.begin("e", "Other", "b")["retired"] is None


def test_a_device_that_is_retired() -> None:
    kept = keeper()
    kept.retire("d", "it is wrong", ["b1", "b2"])
    kept.retire("d", "again", [])
    assert kept.retired() == {"d": "it is wrong"}
    assert kept.state()["suspect"] == [("d", "b1"), ("d", "b2")]


def test_what_runs_compute_is_measured_once() -> None:
    kept = Keeper(ErrorBound.of(0), 1000, 0, 0, {"Known": 4})
    assert kept.stacking("Known", "w1") == 4
    assert kept.stacking("Card", "w1") == 0  # it measures
    assert kept.stacking("Card", "w2") == -1  # and others wait
    assert kept.stacks("d", "Card", 8) == 8
    assert [kept.stacking("Card", worker) for worker in ("w1", "w2")] == [8, 8]
    assert kept.stacks("e", "Card", 1) == 8  # who gave up waiting, or measured too late
    assert {d: r["stacked"] for d, r in kept.state()["devices"].items()} == {"d": 8, "e": 8}
    assert kept.state()["stacked"] == {"Known": 4, "Card": 8}


def test_a_worker_that_ends_while_it_measures() -> None:
    kept = Keeper(ErrorBound.of(0), None, 0, 0)
    assert [kept.stacking("Card", "w1") for _ in range(2)] == [0, 1]
    assert kept.stacking("Card", "w2") == 1


def test_a_small_job_is_not_measured() -> None:
    assert Keeper(ErrorBound.of(0), 12, 0, 0).stacking("Card", "w1") == 1


def test_the_keepers_bound() -> None:
    kept = keeper("1%")
    good = BatchProgress("d", rows=1, errors={"InputError": 1}, last=("InputError", "no picture"))
    kept.end("b1", good)
    assert kept.begin("d", "Card", "b2")["failure"] == ""
    kept.end("b2", good)
    text = kept.begin("d", "Card", "b3")["failure"]
    assert text == (
        "2 of 4 records could not be computed, and errors=1% are allowed; the last: InputError: "
        "no picture"
    )
    kept.end("b3", BatchProgress("d", rows=1))
    assert kept.begin("d", "Card", "b4")["failure"] == text == kept.state()["failure"]


def test_bounds() -> None:
    assert str(ErrorBound.of("0.1%")) == "0.1%" and ErrorBound.of("0.1%").most(10_000) == 10
    assert ErrorBound.of(5).most(1) == 5 and ErrorBound.of("1/4").most(8) == 2
    assert ErrorBound.of(None).most(1) == float("inf") and str(ErrorBound.of(None)) == "any number"
    for text in ("few", "1e99999999", "9" * 5000):  # neither is worth minutes, or an error of int()
        with pytest.raises(InputError, match="expected a number of records"):
            ErrorBound.of(text)
