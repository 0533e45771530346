"""Device policy, all but the last without a device."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from vknn.errors import DeviceError, NullDeviceError
from vknn.opening import choose_device
from vknn.runtime import open_device
from vknn.runtime.device_selection import choose, is_host, rejection
from vknn.runtime.quirks import (
    Quirk,
    device_limits,
    preferred_access,
    unusable,
    usable_features,
)
from vknn.runtime.snapshot import (
    COMPUTE,
    GRAPHICS,
    TRANSFER,
    QueueFamily,
    Snapshot,
)
from vknn.runtime.vulkan import discovery

CPU = Snapshot(0, "llvmpipe (LLVM 15)", "cpu", driver=13, driver_name="llvmpipe")
INTEGRATED = Snapshot(1, "Intel(R) Iris(R)", "integrated", driver_name="Mesa ANV")
DISCRETE = Snapshot(2, "GeForce RTX", "discrete", driver_name="NVIDIA")
SECOND = Snapshot(3, "GeForce GT", "discrete", driver_name="NVIDIA")
VIRTUAL = Snapshot(4, "VirtIO", "virtual")
ALL = [CPU, INTEGRATED, DISCRETE, SECOND, VIRTUAL]


@pytest.mark.parametrize(
    ("selector", "devices", "expected"),
    [
        ("auto", ALL, DISCRETE),
        ("vulkan", ALL, DISCRETE),
        ("auto", [CPU, VIRTUAL, INTEGRATED], INTEGRATED),
        ("auto", [CPU, VIRTUAL], VIRTUAL),
        ("auto", [CPU], CPU),
        ("vulkan:0", ALL, CPU),
        ("vulkan:3", ALL, SECOND),
        ("LLVMpipe", ALL, CPU),
        ("geforce gt", ALL, SECOND),
        ("anv", ALL, INTEGRATED),
        ("nvidia", ALL, DISCRETE),
    ],
)
def test_choice(selector: str, devices: list[Snapshot], expected: Snapshot) -> None:
    assert choose(devices, selector) is expected


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("vulkan:9", r"no device vulkan:9; there are vulkan:0 \(llvmpipe"),
        ("arc", "no device match"),
    ],
)
def test_no_match_names_what_there_is(selector: str, text: str) -> None:
    with pytest.raises(DeviceError, match=text):
        choose(ALL, selector)


@pytest.mark.parametrize("selector", ["cpu", "CPU", "numpy", " reference "])
def test_the_reference_is_no_vulkan_device(selector: str) -> None:
    """Not even where the name of a device has it in it."""
    named = dataclasses.replace(CPU, name="pocl-cpu numpy reference")
    assert is_host(selector)
    for devices in ([named], []):
        with pytest.raises(DeviceError, match="is the NumPy reference; a Vulkan device is needed"):
            choose(devices, selector)


@pytest.mark.parametrize("selector", ["auto", "vulkan", "vulkan:0", "cpu llvm", ""])
def test_other_selectors_mean_vulkan_devices(selector: str) -> None:
    assert not is_host(selector)


def test_no_device_has_a_remedy() -> None:
    with pytest.raises(DeviceError, match="mesa-vulkan-drivers"):
        choose([])


def test_old_api_is_passed_over() -> None:
    old = dataclasses.replace(DISCRETE, api_version=(1, 0, 3))
    assert choose([CPU, old]) is CPU
    with pytest.raises(DeviceError, match=r"1\.0\.3; 1\.1 is needed"):
        choose([CPU, old], "geforce")
    with pytest.raises(DeviceError, match=r"1\.0\.3; 1\.1 is needed"):
        choose([CPU, old], "vulkan:2")


def test_device_without_compute_is_passed_over() -> None:
    drawing = dataclasses.replace(DISCRETE, queue_families=(QueueFamily(GRAPHICS),))
    assert rejection(drawing) == "it has no compute queue"
    assert choose([drawing, INTEGRATED]) is INTEGRATED


def test_null_devices_are_never_taken_for_real_ones() -> None:
    null = dataclasses.replace(DISCRETE, name="NAVI31", driver_name="radv", is_null=True)
    for allowed in (False, True):
        assert choose([null, CPU], "auto", allowed) is CPU
        assert choose([null, CPU], "vulkan", allowed) is CPU
        with pytest.raises(NullDeviceError, match="nothing.*its name or index") as caught:
            choose([null], "auto", allowed)
        assert ("--null-device" in str(caught.value)) != allowed
    for selector in ("vulkan:2", "navi31", "radv"):
        with pytest.raises(NullDeviceError, match="VKNN_NULL_DEVICE=1"):
            choose([null, CPU], selector)
        assert choose([null, CPU], selector, True) is null


DIGITS = "8c0a7f3e1b2d4c5e9f60718293a4b5c6"
DASHED = "8c0a7f3e-1b2d-4c5e-9f60-718293a4b5c6"
CARD = dataclasses.replace(SECOND, uuid=bytes.fromhex(DIGITS), pci="0000:3b:00.0")
TWIN = dataclasses.replace(DISCRETE, uuid=bytes(15) + b"\1", pci="10000:e1:1f.7")
LASTING = [CPU, TWIN, CARD, dataclasses.replace(VIRTUAL, name=f"a uuid:{DASHED} pci:0000:99:00.0")]


def test_names_that_last() -> None:
    assert CARD.lasting_names == (f"uuid:{DASHED}", "pci:0000:3b:00.0")
    assert (CARD.uuid_name, CARD.pci_name) == CARD.lasting_names
    assert TWIN.uuid_name == "uuid:00000000-0000-0000-0000-000000000001"
    assert (CPU.uuid_name, CPU.pci_name, CPU.lasting_names) == (None, None, ())


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (f"uuid:{DIGITS}", CARD),
        (f" UUID:{DASHED.upper()} ", CARD),
        (f"uuid:GPU-{DASHED}", CARD),
        ("uuid:00000000-0000-0000-0000-000000000001", TWIN),
        ("pci:0000:3b:00.0", CARD),
        ("PCI:00000000:3B:00.0", CARD),
        ("pci:0:3b:00.0", CARD),
        ("pci:3b:00.0", CARD),
        ("pci:10000:E1:1f.7", TWIN),
    ],
)
def test_a_device_by_a_name_that_lasts(selector: str, expected: Snapshot) -> None:
    assert choose(LASTING, selector) is expected
    assert choose(LASTING[::-1], selector) is expected


NOT_WRITTEN_SO = {
    r"write it as uuid: and 32 hexadecimal digits": [
        *("uuid:", "uuid:8c0a7f3e", f"uuid:{DIGITS[1:]}", f"uuid:{DIGITS}0", f"uuid:{DIGITS[1:]}g"),
        *(f"uuid:{DASHED.replace('-', '', 1)}", f"uuid:{DASHED[1:]}-", f"uuid:MIG-{DASHED}"),
        *(f"uuid: {DASHED}", f"uuid:GPU-GPU-{DASHED}"),
    ],
    r"write it as pci:\[DOMAIN:\]BUS:DEVICE\.FUNCTION in hexadecimal": [
        *("pci:", "pci:3b", "pci:3b:00", "pci:59:0:0", "pci:3b:00.8", "pci:3b:20.0"),
        *("pci:3b:00.00", "pci::3b:00.0", "pci:000000000:3b:00.0", "pci:0000:13b:00.0"),
        "pci:0000-3b-00.0",
    ],
}


@pytest.mark.parametrize(
    ("selector", "how"), [(name, how) for how, names in NOT_WRITTEN_SO.items() for name in names]
)
def test_a_name_that_lasts_and_is_not_written_so(selector: str, how: str) -> None:
    """Nor is it looked for in names of devices."""
    named = dataclasses.replace(CPU, name=f"a {selector} b".lower())
    with pytest.raises(DeviceError, match=how) as caught:
        choose([named], selector)
    assert repr(selector) in str(caught.value)
    assert not is_host(selector)


@pytest.mark.parametrize("selector", ["pci:99:00.0", "pci:0001:3b:00.0", f"uuid:{'0' * 32}"])
def test_a_name_that_lasts_and_no_device_has(selector: str) -> None:
    """Zeros are the UUID of none: devices that tell none have them."""
    with pytest.raises(DeviceError, match="there is no device (uuid|pci):.*; there are ") as caught:
        choose(LASTING, selector)
    assert f"vulkan:3 (GeForce GT, uuid:{DASHED}, pci:0000:3b:00.0)" in str(caught.value)
    assert "vulkan:0 (llvmpipe (LLVM 15)), " in str(caught.value)


def test_of_drivers_of_one_gpu_the_first_usable_is_meant() -> None:
    old = dataclasses.replace(CARD, index=0, name="old driver", api_version=(1, 0, 3))
    third = dataclasses.replace(CARD, index=5, name="third driver")
    for selector in CARD.lasting_names:
        assert choose([old, CARD, third], selector) is CARD
        assert choose([old, third, CARD], selector) is third
        with pytest.raises(
            DeviceError, match=r"old driver: its driver has Vulkan 1\.0\.3; 1\.1 is"
        ):
            choose([old, CPU], selector)


def test_a_null_device_by_a_name_that_lasts() -> None:
    null = dataclasses.replace(CARD, is_null=True)
    for selector in null.lasting_names:
        with pytest.raises(NullDeviceError, match="GeForce GT: .*VKNN_NULL_DEVICE=1"):
            choose([CPU, null], selector)
        assert choose([CPU, null], selector, True) is null


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 0x3B, 0, 0), "0000:3b:00.0"),
        ((0x10000, 0xE1, 0x1F, 7), "10000:e1:1f.7"),
        ((0, 0x100, 0, 0), None),
        ((0, 0, 0x20, 0), None),
        ((0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), None),
    ],
)
def test_addresses_that_drivers_tell(numbers: tuple[int, ...], expected: str | None) -> None:
    """What is no address is not shown as one: nobody could write it as a selector."""
    fields = ("pciDomain", "pciBus", "pciDevice", "pciFunction")
    assert (
        discovery.pci_address(SimpleNamespace(**dict(zip(fields, numbers, strict=True))))
        == expected
    )


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        ([(GRAPHICS | COMPUTE, 64)], 0),
        ([(GRAPHICS | COMPUTE, 64), (0, 0), (COMPUTE, 64)], 2),
        ([(GRAPHICS | COMPUTE, 64), (COMPUTE, 0)], 0),
        ([(GRAPHICS, 64)], None),
    ],
)
def test_queue_family(families: list[tuple[int, int]], expected: int | None) -> None:
    snapshot = Snapshot(queue_families=tuple(QueueFamily(f, t) for f, t in families))
    assert snapshot.compute_family == expected


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        ([(GRAPHICS | COMPUTE, 1)], None),
        ([(GRAPHICS | COMPUTE, 2)], 0),
        ([(GRAPHICS | COMPUTE | TRANSFER, 1), (COMPUTE | TRANSFER, 4)], 1),
        ([(GRAPHICS | COMPUTE | TRANSFER, 1), (COMPUTE | TRANSFER, 1)], 0),
        ([(GRAPHICS | COMPUTE, 16), (TRANSFER, 2), (COMPUTE, 8)], 1),
        ([(COMPUTE, 1), (8, 1)], None),
    ],
)
def test_copy_family(families: list[tuple[int, int]], expected: int | None) -> None:
    snapshot = Snapshot(queue_families=tuple(QueueFamily(f, 64, n) for f, n in families))
    assert snapshot.copy_family == expected


def test_quirks_take_features_away() -> None:
    snapshot = Snapshot(name="Bad GPU", features=frozenset(("int64", "timestamps")))
    bad = Quirk("x", "int64 is wrong", lambda s: "Bad" in s.name, frozenset(("int64",)))
    assert usable_features(snapshot, quirks=(bad,)) == {"timestamps"}
    assert usable_features(CPU, quirks=(bad,)) == CPU.features


def test_a_quirk_can_rule_a_device_out() -> None:
    quirk = Quirk("x", "it computes nonsense", lambda s: s.vendor_id == 7, unusable=True)
    assert unusable(Snapshot(vendor_id=7), (quirk,)) == "it computes nonsense"
    assert unusable(CPU, (quirk,)) is None


def test_disabled_features_are_off() -> None:
    everything = Snapshot(features=frozenset(("int64", "fp16_storage", "subgroup_shuffle")))
    assert usable_features(everything, frozenset(("fp16", "subgroup"))) == {"int64"}


def test_access_by_device() -> None:
    assert preferred_access(CPU) == "image"
    assert preferred_access(CPU, frozenset(("texel",))) == "storage"
    assert preferred_access(DISCRETE) == "storage"
    assert preferred_access(Snapshot(name="SwiftShader Device", kind="cpu")) == "storage"


def test_limits_repeat_the_snapshot() -> None:
    snapshot = dataclasses.replace(DISCRETE, max_texel_buffer_elements=99, subgroup_size=32)
    limits = device_limits(snapshot)
    assert (limits.max_texel_buffer_elements, limits.subgroup_size) == (99, 32)
    assert (limits.kind, limits.preferred_access, limits.unified_memory) == (
        "discrete",
        "storage",
        False,
    )


def test_devices_are_shown_in_a_line() -> None:
    shown = dataclasses.replace(CPU, api_version=(1, 3, 230), driver_info="Mesa 22.3.6")
    assert repr([shown, VIRTUAL]) == (
        "[<vulkan:0 llvmpipe (LLVM 15): cpu, Vulkan 1.3.230, llvmpipe Mesa 22.3.6>, "
        "<vulkan:4 VirtIO: virtual, Vulkan 1.1.0>]"
    )


@pytest.mark.device
def test_names_that_last_open_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_device() as device:
        snapshot = device.snapshot
    assert (snapshot.pci is not None) == ("VK_EXT_pci_bus_info" in snapshot.extensions)
    for name in (*snapshot.lasting_names, f"uuid:GPU-{snapshot.uuid.hex().upper()}"):
        monkeypatch.setenv("VKNN_DEVICE", name)
        with open_device(name) as first, open_device(name) as second, open_device() as third:
            assert first.shared is second.shared is third.shared
            assert first.snapshot.lasting_names == snapshot.lasting_names  # of whichever driver


@pytest.mark.device
def test_vulkan_is_no_name_for_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKNN_DEVICE", "numpy")
    device = choose_device("vulkan")
    assert device is not None
    device.close()
    old = dataclasses.replace(CPU, api_version=(1, 0, 3))
    monkeypatch.setattr("vknn.runtime.device.devices", lambda: [old])
    with pytest.raises(DeviceError, match="no usable device matches 'vulkan': llvmpipe"):
        choose_device("vulkan")
