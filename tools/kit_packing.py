"""Packing of the GPU kit: wheels, a Vulkan loader, networks, tests and the scripts of tools/kit."""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import prepare
from debian import Archive, Unavailable

SOURCE = prepare.ROOT / "tools" / "kit"
NETWORKS = prepare.ROOT.parent / "shared" / "benchmark" / "ncnn"
CACHE = prepare.CACHE / "gpu_kit"
#: Name of the folder in the archive.
NAME = "gpu_kit"
MOST_BYTES = 60_000_000
#: Beside vknn and what it needs. The last three are what pytest needs before Python 3.11.
PACKAGES = ("pytest", "pytest-timeout")
OLD_PYTHON = ("exceptiongroup", "tomli", "typing_extensions")
PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{n}_x86_64" for n in (17, 24, 27, 28)))
#: The loader, and what NVIDIA's drivers link with and a bare machine may lack.
LIBRARIES = {
    "libvulkan1": ("libvulkan.so.1",),
    "libglvnd0": ("libGLdispatch.so.0",),
    "libx11-6": ("libX11.so.6",),
    "libxext6": ("libXext.so.6",),
    "libxcb1": ("libxcb.so.1",),
    "libxau6": ("libXau.so.6",),
    "libxdmcp6": ("libXdmcp.so.6",),
    "libbsd0": ("libbsd.so.0",),
    "libmd0": ("libmd.so.0",),
}
#: What a wheel of vknn is built from.
BUILT_FROM = ("src", "shaders", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
#: Among the operators' tests, those that need no device.
HOST_TESTS = ("test_*_reference.py", "test_heap.py", "test_order.py", "text")


class TooLarge(Exception):
    """The kit is larger than it may be."""


def pack(target: Path, version: str, without: Sequence[str] = ()) -> int:
    """Bytes of the kit that it writes, for a version of Python like "3.12".

    ``without``: packages that the other machine has, whose wheels are left out.

    Raises Unavailable where something cannot be had, and TooLarge.
    """
    if re.fullmatch(r"3\.\d+", version) is None:
        raise Unavailable(f"{version!r} is no version of Python like 3.12")
    if not NETWORKS.is_dir():
        raise Unavailable(f"there are no networks in {NETWORKS}")
    with tempfile.TemporaryDirectory(prefix="vknn-kit-") as temporary:
        kit = Path(temporary) / NAME
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE, kit, ignore=ignored)
        _add_wheels(kit / "wheels", version)
        _leave_out(kit / "wheels", without)  # before minutes of building
        _add_networks(kit / "networks")
        _add_tests(kit)
        _add_libraries(kit / "libraries")
        _add_vknn(kit / "wheels", Path(temporary) / "source")
        (kit / "packed.json").write_text(json.dumps(_made_from(version), indent=1) + "\n")
        size = sum(path.stat().st_size for path in kit.rglob("*") if path.is_file())
        if size > MOST_BYTES:
            largest = sorted(kit.rglob("*"), key=lambda p: -p.stat().st_size)[:3]
            names = ", ".join(f"{p.name} {p.stat().st_size / 1e6:.1f}" for p in largest)
            raise TooLarge(f"the kit has {size / 1e6:.1f} MB, more than 60; largest: {names}")
        _write_tar(kit, target)
    return target.stat().st_size


def _write_tar(kit: Path, target: Path) -> None:
    """The kit as one file, in the place of an older one once it is whole; raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    try:
        with tarfile.open(partial, "w") as tar:
            tar.add(kit, NAME, filter=_anonymous)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(target)) from None


def check_target(target: Path) -> None:
    """Check that a file can be written there; raises Unavailable, or OSError for its folder."""
    if target.is_dir():
        raise Unavailable(f"{target} is a folder: name the file that is to be written")
    if target.exists() and not target.is_file():  # a device would be replaced by the kit
        raise Unavailable(f"{target} is no plain file: name one that is to be written")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise Unavailable(f"{target} cannot be written")


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _add_networks(folder: Path) -> None:
    """The layers of the benchmark networks, and the shapes of their inputs."""
    shapes = _input_shapes()
    folder.mkdir()
    for name in shapes:
        source = NETWORKS / f"{name}.param"
        if not source.is_file():
            raise Unavailable(f"there is no {source}")
        shutil.copy(source, folder)
    (folder / "shapes.json").write_text(json.dumps(shapes))


def _input_shapes() -> dict[str, list[int]]:
    """Those of benchmarks/comparison/networks.py, read without running it."""
    text = (prepare.ROOT / "benchmarks" / "comparison" / "networks.py").read_text()
    table = text.partition("NETWORKS = {")[2].partition("}")[0]
    found = re.findall(r'"([\w.-]+)": \((\d+), (\d+), (\d+)\)', table)
    return {name: [int(size) for size in sizes] for name, *sizes in found}


def _add_tests(kit: Path) -> None:
    """The operators' tests that need a device, and settings for pytest."""
    source, target = prepare.ROOT / "tests", kit / "tests"
    ignored = shutil.ignore_patterns("__pycache__", *HOST_TESTS)
    shutil.copytree(source / "ops", target / "ops", ignore=ignored)
    for folder in (".", "lowering"):  # what they import
        (target / folder).mkdir(exist_ok=True)
        for path in (source / folder).glob("*.py"):
            if not path.name.startswith("test_"):
                shutil.copy(path, target / folder)
    (kit / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\npythonpath = . tests\ntimeout = 100\n"
        "markers =\n    slow: takes long\n    long: takes long\n    device: needs a device\n"
        "    glsl: needs a GLSL compiler\n    host: needs no device\n"
    )


def _add_libraries(folder: Path) -> None:
    """Libraries out of Debian's packages: bookworm's run on most systems since 2022."""
    root = CACHE / "root"
    if not all(_library(root, name) for names in LIBRARIES.values() for name in names):
        prepare.say("fetching a Vulkan loader")
        Archive(CACHE / "apt", "bookworm").unpack(list(LIBRARIES), root)
    folder.mkdir()
    for names in LIBRARIES.values():
        for name in names:
            found = _library(root, name)
            if found is None:
                raise Unavailable(f"Debian's packages hold no {name}")
            shutil.copyfile(found, folder / name)


def _library(root: Path, name: str) -> Path | None:
    return next((path for path in sorted(root.rglob(name)) if path.exists()), None)


def _add_wheels(folder: Path, version: str) -> None:
    """Wheels of all that vknn and the kit need, from the index."""
    prepare.say(f"fetching wheels for Python {version}")
    download = [_python(), "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    download += ["--python-version", version, "--implementation", "cp", "--dest", str(folder)]
    download += [part for name in PLATFORMS for part in ("--platform", name)]
    old = OLD_PYTHON if int(version.partition(".")[2]) < 11 else ()
    _pip([*download, *_requirements(), *PACKAGES, *old])
    _pip([*download, "--no-deps", "ncnn"])  # what it needs beside numpy is for its converters


def _requirements() -> list[str]:
    """What vknn's wheel needs, as pyproject.toml lists it (Python 3.10 has no tomllib)."""
    text = (prepare.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = text.partition("\ndependencies = [\n")[2].partition("\n]")[0]
    return re.findall(r'^ *"([^"]+)"', listed, re.MULTILINE)


def _add_vknn(folder: Path, source: Path) -> None:
    """vknn's wheel, built from the tree."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "_spirv")
    source.mkdir()
    for name in BUILT_FROM:
        path = prepare.ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=ignored)
        else:
            shutil.copy(path, source / name)
    prepare.say("building vknn's wheel")
    wheel = [_python(), "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    _pip([*wheel, "--wheel-dir", str(folder), str(source)])
    (built,) = folder.glob("vknn-*.whl")
    _shrink(built)


def _leave_out(folder: Path, packages: Sequence[str]) -> None:
    """Removal of the wheels of these packages."""
    held = {_normal(path.name.partition("-")[0]): path for path in folder.glob("*.whl")}
    for name in packages:
        wheel = held.pop(_normal(name), None)
        if wheel is None:
            raise Unavailable(f"the kit holds no package {name!r}; it holds {', '.join(held)}")
        wheel.unlink()


def _normal(name: str) -> str:
    """The name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _shrink(wheel: Path) -> None:
    """A wheel as an unpacked one in a .tar.xz, its SPIR-V modules behind one another in the order
    of their kernels: variants of a kernel have most of their bytes in common, which a fast preset
    of xz finds only half of (15.1 MB, 8.8 in a minute and a half more)."""
    folder = wheel.with_suffix("")
    with zipfile.ZipFile(wheel) as contents:
        contents.extractall(folder)
    wheel.unlink()
    modules = folder / "vknn" / "_spirv" / "modules.zip"
    packed = modules.rename(modules.with_suffix(".packed"))
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(modules, "w") as new:
        manifest = json.loads(old.read("manifest.json"))["modules"]
        order = dict.fromkeys(entry["file"] for _, entry in sorted(manifest.items()))
        for name in [*(n for n in old.namelist() if n not in order), *order]:
            new.writestr(name, old.read(name))
    packed.unlink()
    with tarfile.open(wheel.parent / "vknn.tar.xz", "w:xz", preset=6) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, filter=_anonymous)
    shutil.rmtree(folder)


def _python() -> str:
    """A Python that has pip and setuptools: this one, or that of .venv."""
    if all(importlib.util.find_spec(name) for name in ("pip", "setuptools", "cffi")):
        return sys.executable
    prepare.virtual_environment(["dev"])
    return str(prepare.PYTHON)


def _pip(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        errors = [x for x in done.stderr.splitlines() if "ERROR" in x or "error:" in x]
        last = errors or done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"pip {command[3]} failed: {last[0].strip()}")


def _made_from(version: str) -> dict[str, str]:
    """Version, revision and date of the tree, and the Python that the kit is for."""
    init = (prepare.ROOT / "src" / "vknn" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"', init, re.MULTILINE)
    git = ["git", "describe", "--always", "--dirty"]
    revision = subprocess.run(git, cwd=prepare.ROOT, capture_output=True, text=True, check=False)
    return {
        "version": found[1] if found else "?",
        "revision": revision.stdout.strip() or "unknown revision",
        "date": datetime.date.today().isoformat(),
        "python": version,
    }
