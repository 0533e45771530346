"""The wheel: what is in it, and that it runs where there is no shader compiler."""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import vknn
from vknn.reports.html_file import SCRIPTS
from vknn.runtime.spirv import glsl, modules

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.long
DEMO = ROOT / "tools" / "demo_model"
#: What the source distribution is made from, MANIFEST.in says of which.
BUILT_FROM = [
    *("src", "shaders", "docs"),
    *("pyproject.toml", "setup.py", "MANIFEST.in"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
]


def copy_sources(source: Path) -> None:
    """A copy to build from, so that the checkout stays as it is, but for modules it compiles."""
    if (ROOT / ".cache").is_dir():
        source.mkdir(parents=True, exist_ok=True)
        (source / ".cache").symlink_to(ROOT / ".cache")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "_spirv")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)


def build_wheel(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    source = folder / "source"
    copy_sources(source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    return subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = build_wheel(folder, dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("vknn-*.whl")
    return path


@pytest.mark.glsl
def test_wheel_holds_every_module_of_every_kernel(wheel: Path) -> None:
    root = glsl.source_root()
    expected = {
        modules.entry_name(kernel, variant)
        for kernel in glsl.kernels(root)
        for variant in glsl.variants(glsl.read_kernel(root, kernel), kernel)
    }
    with zipfile.ZipFile(wheel) as contents:
        names = set(contents.namelist())
        with contents.open("vknn/_spirv/modules.zip") as file, zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read(modules.MANIFEST))["modules"]
            held = set(archive.namelist())
    assert set(manifest) == expected
    assert {entry["file"] for entry in manifest.values()} <= held
    assert "vknn/py.typed" in names
    assert {f"vknn/_spirv/sources/{k}.comp" for k in glsl.kernels(root)} <= names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "shaders/"))]


def test_wheel_is_for_all_platforms(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


def test_wheel_holds_the_recipes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        names = set(contents.namelist())
    folder = ROOT / "src" / "vknn" / "answers" / "recipes"
    assert {f"vknn/answers/recipes/{path.name}" for path in folder.glob("*.json")} <= names


def test_wheel_holds_the_parts_of_reports(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        names = set(contents.namelist())
    assert {f"vknn/reports/{name}" for name in (*SCRIPTS, "page.css")} <= names


@pytest.mark.glsl
def test_wheel_lists_its_compiled_shaders(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        (record,) = (n for n in contents.namelist() if n.endswith(".dist-info/RECORD"))
        assert "vknn/_spirv/modules.zip,sha256=" in contents.read(record).decode()


def test_wheel_says_version_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        (name,) = (n for n in contents.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(contents.read(name))
        licence = contents.read(name.replace("METADATA", "licenses/LICENSE"))
    assert metadata["Version"] == vknn.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier")
    assert wheel.name == f"vknn-{vknn.__version__}-py3-none-any.whl"
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_source_distribution_holds_what_a_wheel_is_built_from(tmp_path: Path) -> None:
    source = tmp_path / "source"
    copy_sources(source)
    program = f"from setuptools import build_meta; print(build_meta.build_sdist({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=source, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / f"vknn-{vknn.__version__}.tar.gz") as contents:
        held = {name.partition("/")[2] for name in contents.getnames()}
    assert {name for name in BUILT_FROM if (ROOT / name).is_file()} <= held
    for folder in ("src/vknn", "shaders", "docs"):
        files = [f for f in (source / folder).rglob("*") if f.is_file()]
        assert {str(f.relative_to(source)) for f in files} <= held, folder


def test_shaders_are_built_with_what_is_required_for_it() -> None:
    """pip builds where there is nothing but what [build-system] names: NumPy is not among it."""
    code = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "rich", "PIL", "google", "flatbuffers"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
text, path = open("setup.py").read(), __import__("os").path.abspath("setup.py")
scope = {"__file__": path, "__name__": "setup"}
exec(text.partition("\\nsetup(")[0], scope)
assert scope["shader_builder"]().build
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_building_without_a_compiler_says_what_to_install(tmp_path: Path) -> None:
    """On a machine whose libshaderc works alone there is always a compiler."""
    path = tmp_path / "bin"
    path.mkdir()
    done = build_wheel(tmp_path, {**os.environ, "PATH": str(path)})
    if done.returncode == 0:
        pytest.skip("libshaderc.so.1 is usable here")
    assert "apt install glslc" in done.stdout + done.stderr


@pytest.mark.glsl
def test_installed_wheel_runs_the_demo_model_without_a_compiler(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    scripts = tmp_path / "venv/bin"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = tmp_path / "venv/lib" / version / "site-packages"
    # What vknn depends on comes from this environment; its own editable vknn comes after the wheel.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment |= {"PATH": str(scripts), "VKNN_CACHE_DIR": str(tmp_path / "cache")}
    pip = [str(scripts / "python"), "-m", "pip", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, env=environment, check=True, capture_output=True, timeout=300)
    program = f"""
import numpy as np, vknn, vknn.runtime.spirv.glsl as glsl
assert {str(site)!r} in vknn.__file__, vknn.__file__
assert glsl.checkout_root() is None
held_out = np.load({str(DEMO / "held_out.npz")!r})
image = held_out["images"][0][None].astype(np.float32) / 16
with vknn.Session({str(DEMO / "digits.param")!r}, device="vulkan") as session:
    (output,) = session.run({{"image": image}}).values()
assert output.argmax() == held_out["labels"][0]
"""
    python = [str(scripts / "python"), "-c", program]
    done = subprocess.run(
        python, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    vknn = [str(scripts / "vknn"), "devices"]
    subprocess.run(vknn, env=environment, cwd=tmp_path, check=True, timeout=60)
