"""The static profile on drivers that tell what their compilers made of a shader."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.null_devices.jobs import QUICK_DEVICES, named_devices, selected_devices, start
from tests.small_model import SHAPE, write_small_model

from vknn.profiling import Profile
from vknn.profiling.static import NAMES

pytestmark = pytest.mark.long
#: Device -> what its driver's compiler does not count.
UNCOUNTED = {
    "navi21": set[str](),
    "a740": {"scratch", "shared", "cycles", "latency"},
    "nv172": {"shared", "latency"},
    "m1": {"shared", "cycles", "latency", "waves"},
    "dg2": {"registers", "code", "latency", "waves"},
}
#: Fewest of each in any kernel, where they are counted.
LEAST = {"registers": 1, "code": 101, "instructions": 11}


@pytest.mark.parametrize("device", named_devices([*UNCOUNTED], ("navi21", "a740")))
def test_numbers_and_texts(device: str, tmp_path: Path) -> None:
    model, texts = write_small_model(tmp_path), tmp_path / "isa"
    shape = ",".join(map(str, SHAPE))
    arguments = ["profile", str(model), "--static", "--json", "--shape", shape]
    arguments += ["--device", "vulkan:0", "--null-device", "--isa", str(texts)]
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"], "VKNN_VALIDATE": "1"}
    done = start(device, ["-m", "vknn", *arguments], **variables)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    entries = document["dispatches"]
    assert document["time"] == pytest.approx(sum(e["modelled"]["time"] for e in entries))
    assert "220 (memory)" in document["assumptions"]
    entries = [entry for entry in entries if entry["kernel"] not in ("fill", "copy")]
    kernels = [entry["kernel"] for entry in entries]
    assert "convolution/depthwise" in kernels
    assert any(kernel in ("convolution/conv", "convolution/shared") for kernel in kernels)
    for entry in entries:
        for name in NAMES.keys() - UNCOUNTED[device]:
            assert entry[name] is not None, (entry["kernel"], name, entry["statistics"])
        counted = LEAST.keys() - UNCOUNTED[device]
        assert all(entry[name] >= LEAST[name] for name in counted), entry
        assert not entry["spills"] and not entry["scratch"]
        assert entry["counts"]["stores"] and entry["flags"] == [] and not entry["not_counted"]
        assert entry["modelled"]["time"] > 0 and entry["modelled"]["bound"]
        assert entry["modelled"]["coarse"] == (device != "navi21")  # whose machine code is read
        size = entry["subgroup_size"]
        lanes = entry["local"][0] * entry["local"][1] * entry["local"][2]
        groups = entry["groups"][0] * entry["groups"][1] * entry["groups"][2]
        assert size in (8, 16, 32, 64, 128) and entry["subgroups"] == groups * -(-lanes // size)
    if device != "m1":  # Honeykrisp gives no texts
        assert len({path.name.partition(".")[0] for path in texts.iterdir()}) == len(entries)
    else:
        assert f"gives no texts of its compiler: {texts} has none" in done.stderr
        assert all(path.stat().st_size > 100 for path in texts.iterdir())


def test_other_latencies(tmp_path: Path) -> None:
    """Longer ones make nothing shorter, and most of a small network longer."""
    model = write_small_model(tmp_path)
    arguments = ["-m", "vknn", "profile", str(model), "--static", "--null-device", "--json"]
    arguments += ["--shape", ",".join(map(str, SHAPE)), "--device", "vulkan:0"]
    path, times = os.environ["PYTHONPATH"], []
    for factor in ("0.5", "1", "2"):
        done = start(QUICK_DEVICES[0], [*arguments, "--latencies", factor], PYTHONPATH=path)
        assert done.returncode == 0, done.stderr
        times.append(json.loads(done.stdout)["time"])
    assert times[0] < times[1] < times[2]


def test_against_another_device(tmp_path: Path) -> None:
    model, before = write_small_model(tmp_path), tmp_path / "before.json"
    arguments = ["-m", "vknn", "profile", str(model), "--static", "--null-device"]
    arguments += ["--shape", ",".join(map(str, SHAPE)), "--device", "vulkan:0"]
    first, second = selected_devices(QUICK_DEVICES)[0], selected_devices(QUICK_DEVICES)[-1]
    path = os.environ["PYTHONPATH"]
    before.write_text(start(first, [*arguments, "--json"], PYTHONPATH=path).stdout)
    done = start(second, [*arguments, "--against", str(before)], PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "dispatches differ" in done.stdout


@pytest.mark.parametrize("device", named_devices(["navi21"], ("navi21",)))
def test_numbers_beside_measured_times(device: str, tmp_path: Path) -> None:
    """Of what is saved, too: the driver tells, so it is asked by itself."""
    model, saved = write_small_model(tmp_path), tmp_path / "a.vkprof"
    arguments = ["profile", str(model), "--shape", ",".join(map(str, SHAPE)), "--runs", "2"]
    arguments += ["--device", "vulkan:0", "--null-device", "--save", str(saved)]
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    done = start(device, ["-m", "vknn", *arguments, "--json"], **variables)
    assert done.returncode == 0, done.stderr
    commands = json.loads(done.stdout)["commands"]
    kernels = [c["compiled"] for c in commands if c["kernel"] not in ("fill", "copy")]
    assert kernels and all(c["registers"] > 0 and c["modelled"] > 0 for c in kernels)
    profile = Profile.load(saved)
    assert profile.compiled is not None and all(
        e and e["texts"] for e in profile.compiled if e and e["local"][0]
    )
    shown = str(profile)
    assert all(name in shown for name in ("registers", "waves", "model us", "GPU modelled"))
    plain = start(device, ["-m", "vknn", *arguments, "--no-compiled"], **variables)
    assert plain.returncode == 0 and "registers" not in plain.stdout
    assert Profile.load(saved).compiled is None
