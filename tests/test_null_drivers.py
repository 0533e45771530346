"""Drivers of GPUs that are not here: what is said where they cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"
MODULES = ("debian", "intel_shim", "null_drivers", "prepare")


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(TOOLS))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def test_intel_needs_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import debian
    import intel_shim

    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(debian.Unavailable, match="no C compiler"):
        intel_shim.make(tmp_path / "intel")
    assert not intel_shim.is_ready(tmp_path / "intel")


def test_calls_are_added_to_the_shim(tmp_path: Path) -> None:
    import debian
    import intel_shim

    source = tmp_path / "device.c"
    source.write_text(f"table = {{\n   {intel_shim.KNOWN_CALL}\n}};\n")
    intel_shim.add_calls(source)
    text = source.read_text()
    assert text.count("drm_shim_ioctl_stub,\n") == 6
    assert "   [_IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT)] = drm_shim_ioctl_stub,\n" in text
    source.write_text("another one")
    with pytest.raises(debian.Unavailable, match="another one than this tool knows"):
        intel_shim.add_calls(source)


def test_without_debians_tools_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import debian

    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(debian.Unavailable, match="there is no apt-get"):
        debian.Archive(tmp_path, "sid")


def test_each_device_has_a_manifest_and_a_shim() -> None:
    import null_drivers

    for device in ("navi31", "a740", "nv172", "m1", "dg2"):
        manifest = Path(null_drivers.device_environment(device)["VK_DRIVER_FILES"])
        command = null_drivers.command(device, ["python"])
        shim = Path(command[command.index("--preload") + 1])
        of_intel = device == "dg2"
        assert (null_drivers.INTEL in manifest.parents) == of_intel
        assert (shim.parent == null_drivers.INTEL) == of_intel
        assert shim.name.endswith("_noop_drm_shim.so")


#: Runs a program as tools/null_devices does, in a process whose signals are its own.
SUPERVISE = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from importlib.machinery import SourceFileLoader
tool = SourceFileLoader("null_devices", sys.argv[1] + "/null_devices").load_module()
program = [sys.executable, "-c", sys.argv[2]]
sys.exit(tool.supervise("navi21", program, {}, float(sys.argv[3])))
"""


@pytest.mark.parametrize(
    ("program", "seconds", "code", "text"),
    [
        ("raise SystemExit(3)", 60, 3, ""),
        ("import os; os.kill(os.getpid(), 11)", 60, 139, "error: navi21: ended by SIGSEGV\n"),
        ("import time; time.sleep(60)", 0.5, 124, "error: navi21: stopped after 0.5 s\n"),
    ],
)
def test_what_crashes_or_hangs_is_one_line(
    program: str, seconds: float, code: int, text: str
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", SUPERVISE, str(TOOLS), program, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, text)
