"""Preparation for tools/test and tools/demo: system packages and a virtual environment.

Runs on a bare Python >= 3.10: standard library only. Does nothing twice.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CACHE = ROOT / ".cache"

ICD_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
#: Extras that an extra brings along (see pyproject.toml).
INCLUDED = {"dev": {"test", "docs", "image", "ray"}, "test": {"image", "ray"}}
#: Builds docs/ into build/docs, by ``python -m``. -E: a page that warned once warns again.
DOCS = ["sphinx", "-b", "html", "-q", "-E", "-W", "--keep-going", "-n"]
DOCS += ["-d", ".cache/doctrees", "docs", "build/docs"]
LAYER = "VkLayer_khronos_validation.json"
LAYER_FOLDERS = ("/usr/share/vulkan/explicit_layer.d", "/etc/vulkan/explicit_layer.d")
#: Folders of the C library's headers.
HEADER_FOLDERS = ("/usr/include", "/usr/local/include")


def say(text: str) -> None:
    """A line about the preparation, on stderr."""
    print(f"[prepare] {text}", file=sys.stderr, flush=True)


def run(command: Sequence[str | Path], **options: object) -> None:
    """Quiet run of a command; shows its output and exits where it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(f"error: {' '.join(str(part) for part in command)} failed")


def has_loader() -> bool:
    """Whether the Vulkan loader is there."""
    try:
        ctypes.CDLL("libvulkan.so.1")
    except OSError:
        return False
    return True


def has_driver() -> bool:
    """Whether any Vulkan driver is installed or named by the environment."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    return bool(named) or any(any(Path(f).glob("*.json")) for f in ICD_FOLDERS)


def has_layer() -> bool:
    """Whether the validation layer is installed."""
    return any((Path(folder) / LAYER).is_file() for folder in LAYER_FOLDERS)


def has_compiler() -> bool:
    """Whether a C compiler is installed."""
    return any(map(shutil.which, ("cc", "gcc")))


def has_headers() -> bool:
    """Whether the C library's headers are installed."""
    return any(Path(folder, "stdio.h").is_file() for folder in HEADER_FOLDERS)


def missing_packages(*, testing: bool) -> list[str]:
    """Debian packages for what is not there."""
    wanted = {
        "libvulkan1": has_loader(),
        "mesa-vulkan-drivers": has_driver(),
        "glslc": shutil.which("glslc") is not None,
        # Debian keeps what venv needs in a package of its own.
        "python3-venv": importlib.util.find_spec("ensurepip") is not None,
    }
    if testing:
        wanted["vulkan-validationlayers"] = has_layer()
        # The runner of bundles, and layers that tests put between vknn and the driver, are in C.
        wanted["gcc"] = has_compiler()
        wanted["libc6-dev"] = has_headers()
    return [package for package, present in wanted.items() if not present]


def system_packages(*, testing: bool) -> None:
    """Installation of the missing Debian packages, or an exit with the line that does so."""
    packages = missing_packages(testing=testing)
    if not packages:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SystemExit(
            f"error: not installed: {' '.join(packages)}. On Debian or Ubuntu: "
            f"sudo apt-get install {' '.join(packages)}"
        )
    say(f"installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update"], env=environment)
    run(["apt-get", "install", "-y", "--no-install-recommends", *packages], env=environment)


def virtual_environment(extras: Sequence[str]) -> None:
    """The folder .venv with vknn (editable) and its extras, made unless it is up to date."""
    stamp_file = VENV / "prepared.json"
    stamp = {"project": _project_hash(), "extras": sorted(extras)}
    try:
        old = json.loads(stamp_file.read_text())
    except (OSError, ValueError):
        old = {}
    if old.get("project") == stamp["project"]:
        present = set(old["extras"]).union(*(INCLUDED.get(e, set()) for e in old["extras"]))
        if set(extras) <= present:
            return
        stamp["extras"] = sorted({*extras, *old["extras"]})
    if not PYTHON.exists():
        say(f"making {VENV}")
        run([sys.executable, "-m", "venv", VENV])
    say("installing vknn and what it needs from PyPI")
    target = f"{ROOT}[{','.join(stamp['extras'])}]"
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    run([*pip, "--editable", target], cwd=ROOT)
    stamp_file.write_text(json.dumps(stamp))


def _project_hash() -> str:
    """Changes with whatever decides about the environment's contents."""
    files = [ROOT / "pyproject.toml", ROOT / "setup.py"]
    parts = [sys.version.encode(), str(ROOT).encode(), *(f.read_bytes() for f in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def swiftshader() -> dict[str, str]:
    """Environment that makes SwiftShader the only Vulkan driver.

    The library comes out of Debian's package chromium-common, which is unpacked, not installed.
    """
    folder = CACHE / "swiftshader"
    # Its own manifest names the library beside it, so the folder may be moved or linked to.
    manifest = folder / "vk_swiftshader_icd.json"
    if not manifest.is_file():
        _unpack_swiftshader(folder)
    return {"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)}


def _unpack_swiftshader(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit("error: SwiftShader comes from Debian's chromium-common; no apt-get")
    folder.mkdir(parents=True, exist_ok=True)
    say("fetching SwiftShader out of Debian's chromium-common package")
    if os.geteuid() == 0:
        run(["apt-get", "update"])
    run(["apt-get", "-o", "APT::Sandbox::User=root", "download", "chromium-common"], cwd=folder)
    (package,) = folder.glob("chromium-common_*.deb")
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
        pick = ["tar", "-x", "--wildcards", "--strip-components=4", "*swiftshader*"]
        done = subprocess.run(pick, stdin=tar.stdout, cwd=folder, check=False)
    package.unlink()
    if done.returncode != 0 or not (folder / "libvk_swiftshader.so").is_file():
        raise SystemExit("error: the chromium-common package holds no SwiftShader")
