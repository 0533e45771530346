"""``vknn-run``: its test as JSON, and texts of others that cannot steer a terminal."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import rebuilt, relu, with_example, with_field, with_labels

from vknn import export
from vknn.bundle import Bundle, schema

pytestmark = [pytest.mark.glsl, pytest.mark.device]

#: Escape sequence, line end, right-to-left override, quote, an emoji, a C1 control.
EVIL = 'y\x1b[2J\n\u202e"\\\U0001f600\u009b'
SHOWN = 'y\\x1b[2J\\x0a\\u202e"\\\U0001f600\\x9b'


@pytest.fixture(scope="module")
def program() -> Path:
    return build.program(build.RUNNER / "main.c", "-fsanitize=address,undefined")


def run(
    program: Path, *arguments: object, folder: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *map(str, arguments)], cwd=folder, capture_output=True, encoding="utf-8",
        timeout=60, check=False, env={"ASAN_OPTIONS": "detect_leaks=0", **env},
    )  # fmt: skip


def arrays() -> tuple[Bundle, np.ndarray, np.ndarray]:
    bundle = Bundle.of(relu())
    [port] = bundle.plans[0].inputs
    data = np.random.default_rng(0).standard_normal(port.shape).astype(np.float32)
    return bundle, data, np.maximum(data, 0)


def named(bundle: Bundle, name: str) -> bytes:
    """The bundle with another name for its output."""
    strings = bundle.sections["strings"].tobytes()
    changed = Bundle.of(rebuilt(bundle, {"strings": strings + name.encode() + b"\0"}))
    [at] = np.flatnonzero(changed.tables[schema.PORT]["direction"] == schema.Direction.OUTPUT)
    return with_field(changed, schema.PORT, "name", len(strings), int(at))


def test_no_driver_is_no_device(program: Path, tmp_path: Path) -> None:
    """Loaders refuse to make an instance there, or list no device."""
    (tmp_path / "net.vkb").write_bytes(relu())
    none = {name: str(tmp_path / "none.json") for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")}
    for arguments in (["net.vkb", "--test"], ["--devices"]):
        done = run(program, *arguments, folder=tmp_path, **none)
        assert done.returncode == 1
        assert done.stderr.startswith("vknn-run: device: there is no device with a Vulkan driver; ")


def test_a_test_is_json(program: Path, tmp_path: Path) -> None:
    bundle, data, answer = arrays()
    (tmp_path / "net.vkb").write_bytes(with_example(bundle, {"data": data}, {"y": answer}))
    done = run(program, "net.vkb", "--test", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    document = json.loads(done.stdout)
    [plan] = bundle.plans
    told = {key: document[key] for key in ("target", "shapes", "precision", "ok", "error")}
    assert told == {
        "target": plan.target, "shapes": plan.shapes, "precision": plan.precision, "ok": True,
        "error": None,
    }  # fmt: skip
    assert document["device"] and document["driver"]
    assert document["outputs"] == [{
        "output": "y", "compared": True, "wrong": 0, "elements": 24, "max_abs": 0,
        "absolute": 1e-6, "relative": 1e-4,
    }]  # fmt: skip


def test_a_test_that_differs_is_json(program: Path, tmp_path: Path) -> None:
    bundle, data, answer = arrays()
    wrong = answer.copy()
    wrong.flat[5] += 0.5
    wrong.flat[6] = np.nan
    wrong.flat[2] = np.inf  # which is within no tolerance
    (tmp_path / "bad.vkb").write_bytes(with_example(bundle, {"data": data}, {"y": wrong}))
    options = ["--test", "--json", "--output", "y=y.npy"]
    done = run(program, "bad.vkb", *options, folder=tmp_path)
    document = json.loads(done.stdout)
    [row] = document["outputs"]
    assert done.returncode == 1 and not document["ok"]
    assert document["error"].startswith("differs: ") and "(3 elements)" in done.stderr
    assert (row["wrong"], row["elements"], row["compared"]) == (3, 24, True)
    assert row["max_abs"] in ("nan", "-nan"), "what is no number is a text"
    assert np.array_equal(np.load(tmp_path / "y.npy"), answer)


def test_a_test_that_cannot_run_is_json(program: Path, tmp_path: Path) -> None:
    (tmp_path / "net.vkb").write_bytes(relu())
    done = run(program, "net.vkb", "--test", "--json", folder=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 2 and document["outputs"] == [] and document["device"]
    assert "no example" in document["error"] and document["driver"]


def test_names_and_labels_cannot_steer_a_terminal(program: Path, tmp_path: Path) -> None:
    bundle, data, answer = arrays()
    evil = Bundle.of(named(bundle, EVIL))
    (tmp_path / "net.vkb").write_bytes(with_example(evil, {"data": data}, {EVIL: answer}))
    done = run(program, "net.vkb", "--test", folder=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith(f"{SHOWN}: 0 of 24"), done
    assert done.stdout.count("\n") == 1
    done = run(program, "net.vkb", "--test", "--json", folder=tmp_path)
    assert done.stdout.isascii() and "\x1b" not in done.stdout and "\x7f" not in done.stdout
    assert json.loads(done.stdout)["outputs"][0]["output"] == EVIL
    np.save(tmp_path / "data.npy", data)
    given = ["--input", "data=data.npy"]
    done = run(program, "net.vkb", *given, "--output", "x=x.npy", folder=tmp_path)
    told = f"a NAME fits none, or comes twice: there is no output else; there are: {SHOWN}\n"
    assert done.returncode == 2 and done.stderr.endswith(told)
    done = run(program, "net.vkb", "--shape", "\x1b[1m\u202e", folder=tmp_path)
    assert done.returncode == 2 and "\\x1b[1m\\u202e" in done.stderr and "\x1b" not in done.stderr
    done = run(program, "\x1b\n.vkb", folder=tmp_path)
    assert done.returncode == 1 and "\\x1b\\x0a.vkb" in done.stderr, done
    (tmp_path / "labels.vkb").write_bytes(with_labels(bundle, [EVIL] * 24))
    done = run(program, "labels.vkb", *given, folder=tmp_path)
    assert done.stdout.count("\n") == 5 and done.stdout.count(SHOWN) == 5, done


def test_the_longest_name_is_meant(program: Path, tmp_path: Path) -> None:
    """`a=b=FILE` is for the input `a=b` where there is one, not the file `b=FILE` for `a`."""
    (tmp_path / "sub.param").write_text(
        "7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp sub 2 1 a b y 0=1\n"
    )
    (tmp_path / "sub.bin").touch()
    shapes = {"a": (2, 3, 4), "b": (2, 3, 4)}
    export(tmp_path / "sub.param", tmp_path / "sub.vkb", shapes=shapes, example=False)
    bundle = Bundle.of((tmp_path / "sub.vkb").read_bytes())
    strings = bundle.sections["strings"].tobytes()
    changed = Bundle.of(rebuilt(bundle, {"strings": strings + b"a=b\0"}))
    names = [changed.string(name) for name in changed.tables[schema.PORT]["name"]]
    raw = with_field(changed, schema.PORT, "name", len(strings), names.index("b"))
    (tmp_path / "net.vkb").write_bytes(raw)
    arrays = np.random.default_rng(0).standard_normal((2, 2, 3, 4)).astype(np.float32)
    given = ["a=b=b.npy", "a=a=b.npy"]
    for text, array in zip(("b.npy", "a=b.npy"), arrays, strict=True):
        [port] = {p.shape for p in changed.plans[0].inputs}
        np.save(tmp_path / text, array.reshape(port))
    for inputs in (given, given[::-1]):
        options = [part for text in inputs for part in ("--input", text)]
        done = run(program, "net.vkb", *options, "--output", "y=y.npy", folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert np.array_equal(np.load(tmp_path / "y.npy").ravel(), (arrays[1] - arrays[0]).ravel())
    done = run(program, "net.vkb", "--input", given[0], folder=tmp_path)
    assert done.returncode == 2
    assert "a: --input NAME=FILE is missing" in done.stderr


def test_labels_behind_the_last_element(program: Path, tmp_path: Path) -> None:
    """More of them than elements: nothing behind the array is read, under a sanitizer."""
    bundle, data, answer = arrays()
    names = [f"class {n}" for n in range(5000)]
    (tmp_path / "labels.vkb").write_bytes(with_labels(bundle, names))
    np.save(tmp_path / "data.npy", data)
    done = run(program, "labels.vkb", "--input", "data=data.npy", folder=tmp_path)
    assert done.returncode == 0, done.stderr[:2000]
    best = [f"class {n}" for n in np.argsort(-answer.ravel(), kind="stable")[:5]]
    assert [line.split(maxsplit=1)[1] for line in done.stdout.splitlines()] == best


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json",),
        ("--test", "--runs", "2"),
        ("--test", "--profile"),
        ("--test", "--input", "data=data.npy"),
    ],
)
def test_options_that_do_not_go_together(
    program: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = run(program, "net.vkb", *arguments, folder=tmp_path)
    told = "vknn-run: --test has own inputs and runs; --json goes with it\nusage: "
    assert done.returncode == 2 and done.stderr.startswith(told)
