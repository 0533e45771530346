"""Drivers that crash, hang or are missing: one line, and the others are listed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bad_drivers import STAGES, faulty, library, manifest, names, vknn, working
from tests.small_model import write_small_model

from vknn.cli import main
from vknn.runtime.vulkan import drivers

pytestmark = [pytest.mark.device, pytest.mark.long]  # processes of their own


@pytest.mark.parametrize(
    ("stage", "way"),
    [
        *((stage, "crash") for stage in STAGES),
        ("enumerate", "hang"),
        *(
            pytest.param(stage, "hang", marks=pytest.mark.slow)
            for stage in STAGES
            if stage != "enumerate"
        ),
    ],
)
def test_a_bad_driver_is_a_line(stage: str, way: str, tmp_path: Path) -> None:
    bad, good = str(manifest(tmp_path, "bad", str(library()))), working()
    variables = {"VKNN_BAD_DRIVER": f"{stage}:{way}"}
    arguments = ("devices", "--json", "--time-limit", "5")
    done = vknn(*arguments, drivers=os.pathsep.join((bad, good)), variables=variables)
    assert done.returncode == 1, done.stderr
    how = "crashed (SIGSEGV)" if way == "crash" else "gave no answer within 5 s"
    (line,) = done.stderr.splitlines()
    assert line == (
        f"vknn: error: {bad}: the driver {how}; repair or remove it, or leave it out by "
        f"VK_DRIVER_FILES={good}"
    )
    without = vknn(*arguments, drivers=good, variables=variables)  # what the line tells to do
    assert without.returncode == 0 and without.stderr == ""
    assert done.stdout == without.stdout and names(done.stdout)


def test_the_driver_is_listed_where_it_is_well(tmp_path: Path) -> None:
    bad = str(manifest(tmp_path, "bad", str(library())))
    done = vknn("devices", "--json", drivers=bad)
    assert done.returncode == 0 and names(done.stdout) == ["bad driver"]


@pytest.mark.parametrize("way", ["crash", "hang"])
def test_nothing_but_a_bad_driver(way: str, tmp_path: Path) -> None:
    bad = str(manifest(tmp_path, "bad", str(library())))
    variables = {"VKNN_BAD_DRIVER": f"enumerate:{way}"}
    done = vknn("devices", "--time-limit", "2", drivers=bad, variables=variables)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"vknn: error: {bad}: the driver ")
    remedy = "repair or remove it, or install another (Debian: apt install mesa-vulkan-drivers)"
    assert line.endswith(f"; {remedy}")


def test_a_manifest_that_is_no_json(tmp_path: Path) -> None:
    """The loader of Debian 12 refuses all drivers for it, and says that memory is out."""
    junk = tmp_path / "junk.json"
    junk.write_text("{ no")
    drivers = os.pathsep.join((str(junk), working()))
    done = vknn("devices", "--json", drivers=drivers)
    assert f"{junk}: the manifest is no JSON: " in done.stderr and names(done.stdout)
    assert "MEMORY" not in done.stderr
    done = vknn("devices", drivers=str(junk))
    assert done.returncode == 2 and f"{junk}: the manifest is no JSON" in done.stderr
    model = write_small_model(tmp_path)
    done = vknn("verify", str(model), "--device", "vulkan", drivers=str(junk))
    assert done.returncode == 2 and f"{junk}: the manifest is no JSON" in done.stderr


def test_a_library_that_is_gone(tmp_path: Path) -> None:
    gone = str(manifest(tmp_path, "gone", "./libgone.so"))
    done = vknn("devices", "--json", drivers=os.pathsep.join((gone, working())))
    assert done.returncode == 0 and names(done.stdout)
    assert done.stderr.startswith(
        f"vknn: warning: driver left out: {gone}: its library cannot be loaded: {tmp_path}"
    )
    done = vknn("devices", drivers=gone)
    assert done.returncode == 2 and f"{gone}: its library cannot be loaded" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "names no library"),
        ('{"ICD": 3}', "names no library"),
        ('{"ICD": {"library_path": ""}}', "names no library"),
        ('{"ICD": {"library_path": "a\\u0000b"}}', "names no library"),
        ("[" * 100_000, "is no JSON"),
        ("\udcff", "is no JSON"),
    ],
)
def test_manifests_in_shreds(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "driver.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    found = drivers.fault(file)
    assert found is not None and reason in found.reason


def test_the_places_of_manifests(tmp_path: Path) -> None:
    own, data = tmp_path / "own" / "vulkan" / "icd.d", tmp_path / "data" / "vulkan" / "icd.d"
    for folder, name in ((own, "b"), (own, "a"), (data, "c")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text("{}")
    places = {"XDG_DATA_HOME": str(own.parents[1]), "XDG_DATA_DIRS": str(data.parents[1])}
    named = [file.name for file in drivers.manifests(places) if tmp_path in file.parents]
    assert named == ["a.json", "b.json", "c.json"]
    more = {**places, "VK_ADD_DRIVER_FILES": "/x.json"}
    assert drivers.manifests(more)[0] == Path("/x.json")
    assert drivers.manifests({**more, "VK_ICD_FILENAMES": "/y.json"}) == [Path("/y.json")]
    both = {**more, "VK_ICD_FILENAMES": "/y.json", "VK_DRIVER_FILES": str(own)}
    assert drivers.manifests(both) == [own / "a.json", own / "b.json"]
    assert drivers.manifests({**places, "VK_DRIVER_FILES": ""}) == []


@pytest.mark.parametrize(
    ("call", "work", "way"),
    [
        ("vkCreateComputePipelines", "compiling ", "crash"),
        ("vkCreateComputePipelines", "compiling ", "hang"),
        ("vkCreateShaderModule", "reading the module of ", "crash"),
        ("vkCreateDevice", "opening the device", "hang"),
    ],
)
def test_a_compiler_that_does_not_return(call: str, work: str, way: str, tmp_path: Path) -> None:
    model = str(write_small_model(tmp_path))
    given = ("profile", model, "--static", "--device", "vulkan", "--time-limit", "5")
    done = vknn(*given, drivers=working(), variables=faulty(call, 1, way))
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    device = names(vknn("devices", "--json", drivers=working()).stdout)[0]
    assert line.startswith(f"vknn: error: {model}: {device}: ")
    assert f": {work}" in line or f" or {work}" in line  # other threads are at something, too
    how = "crashed (SIGSEGV)" if way == "crash" else "gave no answer within 5 s"
    assert line.endswith(f": the driver {how}; update it, or choose another device")
    if call == "vkCreateComputePipelines":
        layers = "data|conv1|dw|sum|pool|fc|prob"  # threads begin with any
        assert re.search(rf"compiling \S+ \(({layers})", line)
    assert vknn(*given, drivers=working()).returncode == 0  # without the fault


#: A program that is vknn, with a driver that does not return where it compiles some kernels.
BAD_COMPILER = """
import signal, sys, time
from vknn.cli import main
from vknn.runtime import pipelines, refusals
_, kernels, way, *arguments = sys.argv
compile_all = pipelines.Pipelines._compile
def compile_some(self, infos, handles, dispatches):
    for dispatch in dispatches:
        if dispatch.kernel in kernels.split(",") and not refusals.refusal(dispatch):
            with self.compiling(dispatch):
                signal.raise_signal(signal.SIGSEGV) if way == "crash" else time.sleep(100)
    return compile_all(self, infos, handles, dispatches)
pipelines.Pipelines._compile = compile_some
sys.exit(main(arguments))
"""


@pytest.mark.parametrize(
    ("kernels", "way", "layers"),
    [
        ("convolution/conv", "crash", ["conv1"]),
        ("matmul/row,reduction/softmax", "crash", ["fc", "prob"]),
        pytest.param("convolution/conv", "hang", ["conv1"], marks=pytest.mark.slow),
    ],
)
def test_the_profile_goes_on_without_what_a_compiler_ends_at(
    kernels: str, way: str, layers: list[str], tmp_path: Path
) -> None:
    model = str(write_small_model(tmp_path))
    given = (model, "--static", "--json", "--device", "vulkan", "--time-limit", "5")
    done = subprocess.run(
        [sys.executable, "-c", BAD_COMPILER, kernels, way, "profile", *given],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    whole = json.loads(vknn("profile", *given, drivers=working()).stdout)["dispatches"]
    found = json.loads(done.stdout)["dispatches"]
    assert [d["layers"] for d in found] == [d["layers"] for d in whole]
    lost = [d for d in found if "not compiled" in d["flags"]]
    assert sorted({layer for d in lost for layer in d["layers"]}) == layers
    kept = [d for d in found if d not in lost]
    assert all(d in whole for d in kept)
    how = "crashed (SIGSEGV)" if way == "crash" else "gave no answer within 5 s"
    lines = done.stderr.splitlines()
    assert len(lines) == len(layers)
    for line, kernel, name in zip(lines, kernels.split(","), layers, strict=True):
        assert f": compiling {kernel} ({name}" in line and f": the driver {how}; " in line


@pytest.mark.parametrize("way", ["crash", "hang"])
def test_a_driver_that_the_profile_does_not_reach(way: str, tmp_path: Path) -> None:
    """Nobody knows then which it is: `vknn devices` does."""
    bad = str(manifest(tmp_path, "bad", str(library())))
    done = vknn(
        *("profile", str(write_small_model(tmp_path)), "--static", "--time-limit", "2"),
        drivers=os.pathsep.join((bad, working())),
        variables={"VKNN_BAD_DRIVER": f"enumerate:{way}"},
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.endswith("; `vknn devices` tries each apart\n")


def test_a_layer_at_fault_is_no_driver() -> None:
    variables = faulty("vkEnumeratePhysicalDevices", 1, "crash")
    done = vknn("devices", "--json", drivers=working(), variables=variables)
    assert done.returncode == 1 and names(done.stdout)
    (line,) = done.stderr.splitlines()
    name, value = line.rpartition(" by ")[2].split("=")
    again = vknn("devices", drivers=working(), variables={**variables, name: value})
    assert again.returncode == 0 and again.stderr == ""


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
@pytest.mark.parametrize("command", [["devices"], ["profile", "net.param", "--static"]])
def test_time_limits(seconds: str, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--time-limit", seconds]) == 2
    assert "--time-limit takes a number of seconds above 0" in capsys.readouterr().err
