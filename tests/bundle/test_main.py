"""The program ``vknn-run``: arrays in and out, hostile ones too, options, exit status."""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import digits, relu, with_example, with_labels
from tests.helpers import shared_device

from vknn.bundle.reader import Bundle
from vknn.bundle.restored import RestoredPlan
from vknn.cli.main import main
from vknn.runtime import open_device

pytestmark = pytest.mark.glsl

SHAPE = (1, 1, 8, 8)


#: Of a command: writing to a file is an error.
ON_A_FULL_DISK = ("bash", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "bash")


@pytest.fixture(scope="module")
def program() -> Path:
    return build.program(build.RUNNER / "main.c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle and an image, and a bundle of one step, which opens faster, and its input."""
    path = tmp_path_factory.mktemp("run")
    (path / "net.vkb").write_bytes(digits("generic", "llvmpipe"))
    [port] = Bundle.of(digits("generic", "llvmpipe")).plans[0].inputs
    image = np.random.default_rng(3).random(SHAPE, np.float32)
    np.save(path / "image.npy", image.reshape(port.shape))
    (path / "relu.vkb").write_bytes(relu())
    [port] = Bundle.of(relu()).plans[0].inputs
    np.save(path / "data.npy", np.random.default_rng(4).random(port.shape, np.float32))
    return path


def run(program: Path, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )


def expected(folder: Path, target: str = "generic") -> np.ndarray:
    bundle = Bundle.open(folder / "net.vkb")
    [plan] = [p for p in bundle.plans if p.target == target]
    with open_device("auto") as device, RestoredPlan(bundle, plan, device) as restored:
        return restored.run({"image": np.load(folder / "image.npy")})["probabilities"]


@pytest.mark.device
@pytest.mark.parametrize("target", ["generic", "llvmpipe"])
def test_an_array_goes_in_and_one_comes_out(program: Path, folder: Path, target: str) -> None:
    if target not in ("generic", shared_device().name.split()[0]):
        pytest.skip(f"{shared_device().name} is not {target}")
    arguments = ["--input", "image=image.npy", "--output", "probabilities=out.npy"]
    done = run(program, "net.vkb", *arguments, "--target", target, "--runs", 2, folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    out = np.load(folder / "out.npy")
    assert np.array_equal(out, expected(folder, target)), "bit for bit as vknn's own runtime"
    assert (folder / "out.npy").stat().st_size % 64 == out.nbytes % 64
    cached = run(program, "net.vkb", *arguments, "--cache", "cache", folder=folder)
    assert cached.returncode == 0 and list((folder / "cache").iterdir())


@pytest.mark.device
def test_all_versions_of_npy_are_read(program: Path, folder: Path) -> None:
    data = np.load(folder / "data.npy")
    for version in (1, 0), (2, 0), (3, 0):
        with (folder / "other.npy").open("wb") as file:
            np.lib.format.write_array(file, data, version)
        done = run(program, "relu.vkb", "--input", "data=other.npy", folder=folder)
        assert done.returncode == 0, done.stderr


HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"


def npy(header: str, data: bytes, version: int = 1, size: int | None = None) -> bytes:
    text = header.encode("latin-1")
    length = len(text) if size is None else size
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", length)
        + text
        + data
    )


@pytest.mark.device
def test_arrays_that_do_not_fit_are_named(program: Path, folder: Path) -> None:
    data = np.load(folder / "data.npy")
    good = str(data.shape)
    for array, text in [
        (data.astype("f8"), "'descr':'<f8'"),
        (data.astype(">f4"), "'descr':'>f4'"),
        (np.zeros((2, 8, 8), "f4"), "'shape':(2,8,8)"),
        (np.zeros(64, "f4"), "'shape':(64,)"),
        (np.zeros((2, 8), "f4", order="F"), "'fortran_order':True"),
    ]:
        np.save(folder / "bad.npy", array)
        done = run(program, "relu.vkb", "--input", "data=bad.npy", folder=folder)
        assert done.returncode == 2 and text in done.stderr and "input data takes" in done.stderr
    body = data.tobytes()
    for content, text in [
        (npy(HEAD % good, body[:-1]), "does not end where"),
        (npy(HEAD % good, body + b"x"), "does not end where"),
        (npy(HEAD % good, body, size=60000), "no .npy file"),
        (npy(HEAD % good, body, 2, size=1 << 31), "no .npy file"),
        (npy(HEAD % good, body, 4), "no .npy file"),
        (b"PK\3\4", "no .npy file"),
        (b"", "no .npy file"),
    ]:
        (folder / "bad.npy").write_bytes(content)
        done = run(program, "relu.vkb", "--input", "data=bad.npy", folder=folder)
        assert done.returncode == 2 and text in done.stderr, (content[:20], done.stderr)


def test_hostile_headers_crash_nothing(folder: Path) -> None:
    """Changed headers under sanitizers: each is read as numpy reads it, or refused."""
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    harness = build.built("npy_harness", [Path(__file__).parent / "npy_harness.c"], flags)
    generator = random.Random(5)
    data = np.arange(6, dtype="f4").tobytes()
    good = npy(HEAD % "(2, 3)", data)
    files = {"good.npy": good, "order.npy": npy(
        "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}\n", data
    )}  # fmt: skip
    for number in range(600):
        changed = bytearray(good)
        for _ in range(generator.randint(1, 4)):
            place = generator.randrange(len(changed))
            kind = generator.randrange(3)
            if kind == 0:
                changed[place] = generator.randrange(256)
            elif kind == 1:
                del changed[place : place + generator.randint(1, 30)]
            else:
                changed[place:place] = bytes([generator.randrange(256)]) * generator.randint(1, 9)
        files[f"{number}.npy"] = bytes(changed)
    files["long.npy"] = npy("{'shape':" + " " * 9990, data)
    files["empty.npy"] = npy("", data)
    files["braces.npy"] = npy(",}", data)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    done = run(harness, *files, folder=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    status = dict(zip(files, done.stdout.split(), strict=True))
    assert status["good.npy"] == status["order.npy"] == "0"
    assert {status["long.npy"], status["empty.npy"], status["braces.npy"]} == {"2"}
    for name, code in status.items():
        if code == "0":
            try:
                array = np.load(folder / name)
            except Exception as error:
                raise AssertionError(f"accepted: {files[name]!r}") from error
            assert array.shape == (2, 3) and array.dtype == np.float32, files[name]
    assert list(status.values()).count("2") > 200


@pytest.mark.device
def test_the_best_classes_are_told(program: Path, folder: Path) -> None:
    names = [f"digit {n}" for n in range(10)]
    bundle = Bundle.of(digits("generic", "llvmpipe"))
    (folder / "labels.vkb").write_bytes(with_labels(bundle, names))
    done = run(program, "labels.vkb", "--input", "image=image.npy", folder=folder)
    scores = expected(folder).ravel()
    best = [f"digit {n}" for n in np.argsort(-scores, kind="stable")[:5]]
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [text for _, text in lines] == best, done.stdout
    assert float(lines[0][0]) == pytest.approx(scores.max(), abs=1e-6)


@pytest.mark.device
def test_the_example(program: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right within its tolerance: status 0; a wrong answer planted: 1, and how far it is off."""
    bundle = Bundle.open(folder / "net.vkb")
    answer, inputs = expected(folder), {"image": np.load(folder / "image.npy")}
    (folder / "good.vkb").write_bytes(with_example(bundle, inputs, {"probabilities": answer}))
    done = run(program, "good.vkb", "--test", "--output", "probabilities=t.npy", folder=folder)
    assert done.returncode == 0 and "probabilities: 0 of 10" in done.stdout, done
    wrong = answer.copy()
    wrong.flat[3] += 0.5
    (folder / "bad.vkb").write_bytes(with_example(bundle, inputs, {"probabilities": wrong}))
    done = run(program, "bad.vkb", "--test", "--output", "probabilities=t.npy", folder=folder)
    assert done.returncode == 1 and "probabilities: 1 of 10" in done.stdout and "0.5" in done.stdout
    assert np.array_equal(np.load(folder / "t.npy"), answer), "what the device computed is written"
    done = run(program, "bad.vkb", "--test", "--json", folder=folder)
    (folder / "answer.json").write_text(done.stdout)
    assert main(["report", str(folder / "answer.json")]) == 0
    assert "probabilities │     1 │       10 │" in capsys.readouterr().out
    assert run(program, "net.vkb", "--test", folder=folder).returncode == 2


@pytest.mark.device
def test_a_profile_becomes_tables_and_a_trace(
    program: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(program, "net.vkb", "--profile", "run.json", "--runs", 3, folder=folder)
    assert done.returncode == 0 and not done.stdout, done.stderr
    trace = folder / "trace.json"
    assert main(["report", str(folder / "run.json"), "--trace", str(trace)]) == 0
    text = capsys.readouterr().out
    assert "convolution2+relu2" in text and "mean of 3 runs" in text
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"convolution2+relu2", "pooling1"} <= {e["name"] for e in events if e["ph"] == "X"}
    done = run(program, "--profile", "net.vkb", "--runs", 1, folder=folder)
    assert json.loads(done.stdout)["runs"] == 1


@pytest.mark.device
def test_a_disk_that_is_full_under_the_cache(program: Path, folder: Path) -> None:
    """The answer is there, and no half of a cache."""
    if "SwiftShader" in shared_device().name:
        pytest.skip("SwiftShader's memory is a file without a name, which ulimit is for, too")
    command = [program, "relu.vkb", "--input", "data=data.npy", "--cache", "full"]
    done = subprocess.run([*ON_A_FULL_DISK, *command], cwd=folder, check=False)
    assert done.returncode == 0 and not [*(folder / "full").iterdir()]
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0
    assert [*(folder / "full").iterdir()], "where there is room it is written"


@pytest.mark.device
@pytest.mark.parametrize("asked", ["--output=y=full.npy", "--profile=full.json"])
def test_a_disk_that_is_full_under_what_is_asked_for(
    program: Path, folder: Path, asked: str
) -> None:
    """No half of a file stays."""
    if "SwiftShader" in shared_device().name:
        pytest.skip("SwiftShader's memory is a file without a name, which ulimit is for, too")
    command = [program, "relu.vkb", "--input", "data=data.npy", *asked.split("=", 1)]
    done = subprocess.run(
        [*ON_A_FULL_DISK, *command], cwd=folder, check=False, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 1 and "full." in done.stderr and "cannot be written" in done.stderr
    assert not [*folder.glob("full.*")]
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0
    [found] = folder.glob("full.*")
    found.unlink()


@pytest.mark.device
def test_it_tells_what_it_works_with(program: Path, folder: Path) -> None:
    """A cache that cannot be written, too, for the answer is there all the same."""
    given = ["relu.vkb", "--input", "data=data.npy", "--verbose", "--cache", "no/such/folder"]
    done = run(program, *given, folder=folder)
    told = done.stderr.splitlines()
    assert done.returncode == 0 and shared_device().name in told[0]
    assert [line.split(" ")[1] for line in told] == ["device:", "plan:", "memory:", "the"], told
    assert "the cache no/such/folder/" in told[3] and "cannot be written" in told[3]
    assert not run(program, *given[:3], folder=folder).stderr


@pytest.mark.device
def test_another_bundle_than_the_pinned_one_is_refused(program: Path, folder: Path) -> None:
    told = Bundle.open(folder / "relu.vkb").sha256
    given = ["relu.vkb", "--input", "data=data.npy", "--sha256"]
    assert run(program, *given, told, folder=folder).returncode == 0
    done = run(program, *given, told[:-1] + ("0" if told[-1] != "0" else "1"), folder=folder)
    assert done.returncode == 1 and "SHA-256" in done.stderr


@pytest.mark.device
@pytest.mark.parametrize(
    "arguments, status, text",
    [
        ((), 2, "usage: "),
        (("relu.vkb", "--bogus"), 2, "--bogus is no option"),
        (("relu.vkb", "relu.vkb"), 2, "relu.vkb is no option, or a second bundle"),
        (("relu.vkb", "--input"), 2, "--input: what it takes is missing"),
        (("relu.vkb", "--test", "--runs", "2"), 2, "usage: "),
        (("relu.vkb", "--json"), 2, "usage: "),
        (("none.vkb",), 1, "none.vkb"),
        (("data.npy",), 1, "bundle"),
        (("relu.vkb",), 2, "data: --input NAME=FILE is missing"),
        (("relu.vkb", "--input", "data=none.npy"), 2, 'input data: "none.npy": No such'),
        (("relu.vkb", "--input", "data="), 2, 'input data: "": No such file'),
        (
            ("relu.vkb", "--input", "data=data.npy", "--output", "y="),
            1,
            '"" cannot be written: No such file',
        ),
        (("relu.vkb", "--input", "data=data.npy", "--input", "data=data.npy"), 2, "twice"),
        (("relu.vkb", "--input", "data=data.npy", "--output", "prob=x.npy"), 2, "no output"),
        (
            ("relu.vkb", "--input", "data=data.npy", "--output", "y=/dev/full"),
            1,
            '"/dev/full" cannot be written: No space',
        ),
        (("relu.vkb", "--target", "mali"), 2, "mali"),
        (("relu.vkb", "--shape", "data=9"), 2, "data=9"),
        (("relu.vkb", "--device", "nothing"), 1, "nothing"),
        (("relu.vkb", "--memory-limit", "100"), 1, "memory"),
    ],
)
def test_mistakes_are_told(
    program: Path, folder: Path, arguments: tuple[str, ...], status: int, text: str
) -> None:
    done = run(program, *arguments, folder=folder)
    assert done.returncode == status and text in done.stderr, done


def test_names_of_outputs_are_looked_at_before_a_run(program: Path, folder: Path) -> None:
    """A long run for a file that is none, or one of two, is no use."""
    for given in (("--output", "prob=x.npy"), ("--output", "y=x.npy", "--output", "y=z.npy")):
        for more in (("--input", "data=none.npy"), ("--test",), ("--profile", "p.json")):
            done = run(program, "relu.vkb", *more, *given, folder=folder)
            assert done.returncode == 2 and not done.stdout, done
            assert "a NAME fits none, or comes twice: there is no output else" in done.stderr
    assert not any((folder / name).exists() for name in ("x.npy", "z.npy", "p.json"))


@pytest.mark.parametrize(
    ("option", "texts"),
    [
        ("--runs", ["0", "-1", "+3", " 3", "3.0", "3.5", "1e3", "0x3", "3x", "x", "", "1000001"]),
        ("--time-limit", ["0", "-1", " 1", "0x1", "soon", "1s", "", "nan", "inf", "2e9", "1e400"]),
        ("--memory-limit", ["0", "-1", "1.5", "1e9", "64M", "", "99999999999999999999"]),
        ("--sha256", ["", "12", "g" * 64, "0" * 63, "0" * 65]),
    ],
)
def test_numbers_that_are_none_are_refused(
    program: Path, folder: Path, option: str, texts: list[str]
) -> None:
    for text in texts:
        done = run(program, "relu.vkb", option, text, folder=folder)
        assert done.returncode == 2 and "usage: " in done.stderr, text
        assert f'{option} "{text}" is not what it takes' in done.stderr


def test_help_names_every_option(program: Path, folder: Path) -> None:
    done = run(program, "--help", folder=folder)
    assert done.returncode == 0 and not done.stderr
    source = (build.RUNNER / "main.c").read_text()
    names = re.findall(r'OPTION\("(--[a-z0-9-]+)"', source)
    assert len(names) > 15 and set(names) == set(re.findall(r"--[a-z0-9-]+", done.stdout))


@pytest.mark.device
def test_the_devices_are_listed(program: Path, folder: Path) -> None:
    done = run(program, "--devices", folder=folder)
    with open_device("auto") as device:
        assert done.returncode == 0 and device.name in done.stdout
        other = ["--device", device.snapshot.uuid.hex(), "--robust", "--staged"]
    done = run(program, "relu.vkb", "--input", "data=data.npy", *other, folder=folder)
    assert done.returncode == 0, done.stderr
