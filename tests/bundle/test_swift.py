"""The Swift package: built by SwiftPM without a warning, the C program's bits, misuse answered.

Runs where ``swift`` is on the PATH, or in the root that ``VKNN_TEST_SWIFT_ROOT`` names, which takes
the rights to chroot. For such a root, Debian 13 with a driver:

    debootstrap --variant=minbase --include=g++,libvulkan1,mesa-vulkan-drivers,swiftlang trixie ROOT
    mount -t proc proc ROOT/proc
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.port_cases import CASES, case
from tests.bundle.rebuilt import DIGITS, digits_with_example
from tests.bundle.test_phones_page import block
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.bundle import Bundle
from vknn.bundle.schema import Direction

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SOURCES = Path(__file__).parent / "swift"
ROOT = os.environ.get("VKNN_TEST_SWIFT_ROOT", "")
RUNS = 3
RNG = np.random.default_rng(19)
STRICT = ("-Xswiftc", "-warnings-as-errors", "-Xcc", "-Wall", "-Xcc", "-Wextra", "-Xcc", "-Werror")


@dataclass(frozen=True)
class Place:
    """A folder in which commands run, in a root of their own or in the machine's."""

    folder: Path
    root: Path | None

    def inside(self, path: Path) -> str:
        """The path as the commands see it."""
        return f"/{path.relative_to(self.root)}" if self.root else str(path)

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment, where = {**os.environ}, self.inside(folder or self.folder)
        if self.root:
            environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": where}
            shell = ["sh", "-c", 'cd "$0" && exec "$@"', where]
            command = ("chroot", str(self.root), *shell, *command)
        environment["CPATH"] = self.inside(self.folder / "include")
        return subprocess.run(
            command, cwd=folder or self.folder, env=environment, capture_output=True,
            encoding="utf-8", check=False, timeout=800,
        )  # fmt: skip

    def ran(self, *command: str, folder: Path | None = None) -> str:
        done = self.run(*command, folder=folder)
        told = done.stderr if len(done.stderr) < 3000 else done.stderr[:1500] + done.stderr[-1500:]
        assert done.returncode == 0, done.stdout[-6000:] + told
        return done.stdout

    def built(self, *flags: str, package: str = "use") -> str:
        """The program that SwiftPM makes of a folder beside ``runner``."""
        folder = self.folder / package
        told = self.ran("swift", "build", *STRICT, *flags, folder=folder)
        assert "warning" not in told
        where = self.ran("swift", "build", *STRICT, *flags, "--show-bin-path", folder=folder)
        return f"{where.strip()}/Use"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """The package and the program over it, in a folder of its own; skips without Swift."""
    root = Path(ROOT).resolve() if ROOT else None
    if root and not os.path.lexists(root / "usr/bin/swift"):  # a link within the root
        pytest.skip(f"VKNN_TEST_SWIFT_ROOT is {root}, where there is no /usr/bin/swift")
    if root and not (root / "proc" / "self").exists():
        pytest.skip(f"Swift needs /proc: mount -t proc proc {root}/proc")
    if root and os.geteuid():
        pytest.skip("VKNN_TEST_SWIFT_ROOT takes the rights to chroot")
    if not root and shutil.which("swift") is None:
        pytest.skip("needs swift on the PATH, or in a root that VKNN_TEST_SWIFT_ROOT names")
    with tempfile.TemporaryDirectory(
        prefix="vknn-swift-", dir=root / "tmp" if root else None
    ) as name:
        folder = Path(name).resolve()
        ignored = shutil.ignore_patterns(".build", "android")
        shutil.copytree(build.RUNNER, folder / "runner", ignore=ignored)
        shutil.copytree(SOURCES, folder / "use")
        for part in ("vulkan", "vk_video"):
            shutil.copytree(build._headers() / part, folder / "include" / part)
        shutil.copy(build.program(build.RUNNER / "main.c"), folder / "vknn-run")
        yield Place(folder, root)


@pytest.fixture(scope="module")
def program(place: Place) -> str:
    return place.built()


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_c(place: Place, program: str, tmp_path: Path, name: str) -> None:
    made, given = case(name, tmp_path)
    folder = place.folder / name
    folder.mkdir()
    path = shutil.copy(made, folder / "net.vkb")
    for port, array in given.items():
        array.tofile(folder / port)
        np.save(folder / f"{port}.npy", array)
    outputs = [p.name for p in Bundle.open(path).plans[0].outputs]
    inputs = [x for p in given for x in ("--input", f"{p}={p}.npy")]
    taken = [x for p in outputs for x in ("--output", f"{p}={p}.c.npy")]
    run = place.inside(place.folder / "vknn-run")
    place.ran(run, "net.vkb", "--runs", str(RUNS), *inputs, *taken, folder=folder)
    told = place.ran(program, "run", "net.vkb", ".", str(RUNS), folder=folder)
    for port in outputs:
        wanted = np.load(folder / f"{port}.c.npy")
        assert (folder / f"{port}.swift").read_bytes() == wanted.tobytes(), port
        assert f"shape {port} {[*wanted.shape]}" in told.splitlines()
    for port in Bundle.open(path).plans[0].ports:
        check_port(port, told)


def check_port(port: Any, told: str) -> None:
    """Asserts that a port's line has what the bundle says of it."""
    direction = "input" if port.direction is Direction.INPUT else "output"
    [line] = [x for x in told.splitlines() if x.startswith(f"{direction} {port.name} ")]
    quantization = f"{port.scale} {port.zero_point}" if port.scale is not None else "none"
    labels = ", ".join(json.dumps(x, ensure_ascii=False) for x in port.labels)

    rest = (
        f"[{', '.join(map(str, port.shape))}] {port.nbytes} layout {port.layout} "
        f"picture {port.picture} quantization {quantization} labels [{labels}] "
        f"open {str(port.is_open).lower()}"
    )
    assert line.split(" ", 3)[3] == rest


LINES = r"""zeros false
borrowed true 20
same true true
input \[3, 8, 8\] output \[5\]
test true true
once true
nets true true true
log true true
device true 1
more nets true true
threads 12
cancel: ended or cancelled
again true
type: 4 argument: 'data' has elements of another type than UInt8
type of output: 4 argument: 'out' has elements of another type than Int32
type of memory: 4 argument: 'data' has elements of another type than Double
size: 4 argument: data has 768 bytes, not 764
nothing: 4 argument: data has 768 bytes, not 0
room: 4 argument: out has 20 bytes, not 19
name: 4 argument: there is no input nothing; there are: data
name of output: 4 argument: there is no output data; there are: out
name with 0: 4 argument: a text has a 0 in it
shape: 4 argument: there is no output nothing; there are: out
runs: 4 argument: a profile takes one run at least
missing: 1 file: no such 😀.vkb cannot be opened: .*
file with 0: 4 argument: a text has a 0 in it
no bundle: 1 file: .*
no bytes: 1 file: .*
no memory: 4 argument: .*
short hash: 4 argument: a SHA-256 has 32 bytes, not 31
hash: 2 hash: .*SHA-256.*
shapes: 4 argument: .*it has data=3,8,8 for llvmpipe
target: 4 argument: .*it has data=3,8,8 for llvmpipe
limit: 6 device memory: .*
device: 3 device: no device no device; there are .*
"""


@pytest.mark.device
@pytest.mark.parametrize("mode", ["debug", "release", "language of Swift 5"])
def test_everything_that_it_has(place: Place, program: str, tmp_path: Path, mode: str) -> None:
    flags = {"release": ("-c", "release"), "debug": ()}
    language = ("-Xswiftc", "-swift-version", "-Xswiftc", "5", "--scratch-path", ".build-5")
    program = program if mode == "debug" else place.built(*flags.get(mode, language))
    folder = place.folder / f"all {mode}"
    folder.mkdir()
    path = folder / "net.vkb"
    vknn.export(write_small_model(tmp_path), path, shapes={"data": SHAPE}, targets="llvmpipe")
    data = RNG.standard_normal(SHAPE).astype("<f4")
    (folder / "data").write_bytes(data.tobytes())
    (folder / "sha256").write_bytes(bytes.fromhex(Bundle.open(path).sha256))
    np.save(folder / "data.npy", data)
    given = ["--input", "data=data.npy", "--output", "out=out.npy"]
    run = place.inside(place.folder / "vknn-run")
    place.ran(run, "net.vkb", *given, folder=folder)
    told = place.ran(program, "all", "net.vkb", ".", "data=3,8,8", "llvmpipe", folder=folder)
    assert re.fullmatch(LINES, told), told
    assert (folder / "out.swift").read_bytes() == np.load(folder / "out.npy").tobytes()
    printed = place.ran(run, "net.vkb", "--test", "--json", folder=folder)
    assert json.loads((folder / "test.json").read_text()) == json.loads(printed)
    profile = json.loads((folder / "profile.json").read_text())
    assert (profile["runs"], profile["target"], len(profile["steps"]) > 1) == (2, "llvmpipe", True)
    assert [x.name for x in (folder / "cäche").iterdir()], "no cache of pipelines"


@pytest.mark.device
def test_the_page_of_phones(place: Place, tmp_path: Path) -> None:
    """Its example finds the digit that the C example there finds."""
    folder = place.folder / "page"
    shutil.copytree(SOURCES, folder)
    pixels = (
        "var pixels = [Float](repeating: 0, count: 64)\nfor i in 0..<8 { pixels[8 * i + 4] = 1 }\n"
    )
    path = shutil.copy(digits_with_example(tmp_path), folder / "digits.vkb")
    text = f'let path = "{place.inside(Path(path))}"\n{pixels}{block("swift")}print(best!)\n'
    (folder / "main.swift").write_text(text)
    image = np.zeros((1, 8, 8), np.float32)
    image[0, :, 4] = 1
    with vknn.Session(DIGITS, device="cpu") as session:
        best = session.run({"image": image})["probabilities"].argmax()
    assert place.ran(place.built(package="page")) == f"{best}\n"
