"""Targets: names, and files of limits, in which what no device can have is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from vknn.bundle.limits_file import FEATURES, read_limits
from vknn.bundle.targets import TARGETS, chosen_targets
from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.plan import DeviceLimits, MeasuredSpeeds

NAMES = {
    *("generic", "adreno-6xx", "adreno-7xx", "mali-g7xx", "xclipse", "apple", "desktop"),
    "llvmpipe",
}


def row(limits: DeviceLimits) -> dict[str, Any]:
    """Limits as `vknn devices --json` has them."""
    found = asdict(limits)
    found["measured_speeds"] = found.pop("speeds")
    return {**found, "features": sorted(limits.features)}


def written(folder: Path, document: Any) -> Path:
    path = folder / "phone.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_the_names() -> None:
    assert TARGETS.keys() == NAMES
    assert all(limits.name == name for name, limits in TARGETS.items())


def test_generic_is_the_minimum_of_vulkan() -> None:
    """The required limits of the specification, once more by hand."""
    limits = TARGETS["generic"]
    assert limits.features == frozenset()
    assert limits.preferred_access == "storage"
    assert (limits.max_storage_buffer_range, limits.max_texel_buffer_elements) == (1 << 27, 1 << 16)
    assert (limits.storage_alignment, limits.texel_alignment) == (256, 256)
    assert (limits.max_push_constants, limits.max_storage_buffers) == (128, 4)
    assert limits.max_group_count == (65535, 65535, 65535)
    assert limits.max_group_size == (128, 128, 64)
    assert (limits.max_group_invocations, limits.shared_memory) == (128, 16384)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_target_is_a_device_that_could_be(name: str, tmp_path: Path) -> None:
    """A file with a target's limits gives these: nothing in the table is impossible."""
    limits = TARGETS[name]
    assert read_limits(written(tmp_path, row(limits))) == limits
    assert limits.features <= FEATURES
    assert limits.max_loop_rounds == 65535  # else llvmpipe would end loops without an error


def test_targets_in_their_order(tmp_path: Path) -> None:
    path = written(tmp_path, {**row(TARGETS["apple"]), "name": "mine"})
    found = chosen_targets(["llvmpipe", path, "generic"])
    assert [t.name for t in found] == ["llvmpipe", "mine", "generic"]
    assert chosen_targets(str(path)) == [found[1]]
    assert [t.name for t in chosen_targets(DeviceLimits(name="x"))] == ["x"]


def test_the_default_device_of_a_list(tmp_path: Path) -> None:
    rows = [
        {**row(TARGETS["generic"]), "name": "a", "usable": False, "default": False},
        {**row(TARGETS["generic"]), "name": "b", "usable": True, "default": False},
        {**row(TARGETS["generic"]), "name": "c", "usable": True, "default": True},
    ]
    assert read_limits(written(tmp_path, rows)).name == "c"
    assert read_limits(written(tmp_path, rows[:2])).name == "b"
    told = {**rows[0], "rejection": "it is a null device"}
    with pytest.raises(VknnError, match="no usable device.* its object alone.*'it is a null dev"):
        read_limits(written(tmp_path, [told]))
    assert read_limits(written(tmp_path, told)).name == "a", "what the error says to do helps"


@pytest.mark.device
def test_what_vknn_devices_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json"]) == 0
    text = capsys.readouterr().out
    limits = read_limits(written(tmp_path, text))
    told = next(d for d in json.loads(text) if d["default"])
    assert limits.name == told["name"]
    assert limits.features == set(told["features"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shared_memory": None}, "shared_memory is None, not a whole number"),
        ({"shared_memory": -1}, "shared_memory is -1, which no Vulkan device has: 16384 to"),
        ({"shared_memory": 16383}, "which no Vulkan device has"),
        ({"max_push_constants": 64}, "max_push_constants is 64"),
        ({"max_storage_buffers": 3}, "max_storage_buffers is 3"),
        ({"max_group_invocations": 1.5}, "not a whole number"),
        ({"max_group_invocations": True}, "not a whole number"),
        ({"max_group_invocations": "128"}, "not a whole number"),
        ({"storage_alignment": 48}, "no power of two"),
        ({"storage_alignment": 512}, "1 to 256"),
        ({"subgroup_size": 0}, "1 to 128"),
        ({"subgroup_size": 24}, "no power of two"),
        ({"max_group_size": [128, 128]}, "not three whole numbers"),
        ({"max_group_size": [128, 128, 63]}, "which no Vulkan device has"),
        ({"max_group_count": [65535, 65535, 1 << 40]}, "which no Vulkan device has"),
        ({"max_group_invocations": 1 << 20, "max_group_size": [128, 128, 60]}, "no Vulkan device"),
        ({"max_storage_buffer_range": 1 << 33}, "which no Vulkan device has"),
        ({"max_storage_buffer_range": 1e99}, "not a whole number"),
        ({"features": ["fp17"]}, "no feature 'fp17'"),
        ({"features": "fp16_storage"}, "not a list of names"),
        ({"kind": "phone"}, "kind is 'phone', none of discrete"),
        ({"preferred_access": 3}, "none of storage"),
        ({"unified_memory": 1}, "neither true nor false"),
        ({"name": "x" * 300}, "not a short text"),
        ({"max_loop_rounds": 0}, "max_loop_rounds is 0"),
        ({"cooperative": [{"m": 16}]}, "does not have factors, k, m, n, sums"),
        ({"cooperative": [{"m": 16, "n": 16, "k": 0, "factors": "float16", "sums": "float32"}]},
         "cooperative: k is 0"),
        ({"measured_speeds": {"gflops": -1, "gbytes": 1, "dispatch": 1}}, "not a number above 0"),
        ({"compute_units": {"count": 1}}, "not an object with count, lanes, gigahertz"),
        ({"max_groupsize": 3}, "no limit 'max_groupsize'; there are"),
    ],
)  # fmt: skip
def test_impossible_numbers(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = written(tmp_path, {**row(TARGETS["generic"]), **change})
    with pytest.raises(VknnError, match=text) as caught:
        read_limits(path)
    assert "phone.json" in str(caught.value)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_limits_made_in_python(name: str) -> None:
    [target] = chosen_targets(TARGETS[name])
    assert target.limits == TARGETS[name]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"max_group_size": (0, 0, 0)}, "max_group_size is 0, which no Vulkan device has"),
        ({"max_group_size": (128, 128)}, "not three whole numbers"),
        ({"shared_memory": -1}, "shared_memory is -1"),
        ({"max_push_constants": 1.5}, "max_push_constants is 1.5, not a whole number"),
        ({"storage_alignment": 48}, "no power of two"),
        ({"features": frozenset(("fp17",))}, "no feature 'fp17'"),
        ({"preferred_access": "any"}, "none of storage"),
        ({"name": ""}, "name is '', not a short text"),
        ({"speeds": MeasuredSpeeds(float("nan"), 1, 1)}, "gflops is nan, not a number above 0"),
    ],
)
def test_limits_made_in_python_that_no_device_has(change: dict[str, Any], text: str) -> None:
    with pytest.raises(VknnError, match=f"limits of a target: .*{text}"):
        chosen_targets([replace(TARGETS["generic"], **change)])


@pytest.mark.parametrize("missing", ["shared_memory", "max_group_size", "subgroup_size"])
def test_missing_numbers(missing: str, tmp_path: Path) -> None:
    document = row(TARGETS["generic"])
    del document[missing]
    with pytest.raises(VknnError, match=f"phone.json: {missing} missing.*vknn devices --json"):
        read_limits(written(tmp_path, document))


@pytest.mark.parametrize("text", ["", "{", "7", '"generic"', "[]", "[3]", '{"a": 1, "a": 2}'])
def test_files_that_hold_no_limits(text: str, tmp_path: Path) -> None:
    with pytest.raises(VknnError, match="phone.json"):
        read_limits(written(tmp_path, text))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(VknnError, match="no such file"):
        chosen_targets(str(tmp_path / "none.json"))
