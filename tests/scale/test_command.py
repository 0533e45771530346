"""``vknn batch``: lines of JSON, plans, exit codes, help; and what is imported when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from tests.scale.jobs import answers, batch, table, vectors, write_net

from vknn.cli import main

HOST = ("--device", "numpy", "--engine", "local")


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    source = table(tmp_path / "t.parquet", vectors(5), more=list(range(5)))
    return [write_net(tmp_path), source, "--output", tmp_path / "out", "--id", "id"]


def test_json(words: list[object], tmp_path: Path) -> None:
    done = batch(*words, "--json", "--keep", "more", "--input", "data=data")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[-1]["state"] == "done" and found[-1]["rows"] == 5 and found[-1]["errors"] == {}
    assert all(line["state"] == "running" for line in found[:-1])
    assert [row["more"] for row in answers(tmp_path / "out")] == list(range(5))


def test_json_is_alone_on_stdout(words: list[object], tmp_path: Path) -> None:
    """What layers print is on stderr."""
    layers = tmp_path / "layers.py"
    layers.write_text("print('a layer speaks')")
    done = batch(*words, "--json", "--layers", layers)
    assert done.returncode == 0 and done.stderr == "a layer speaks\n"
    assert [json.loads(line)["state"] for line in done.stdout.splitlines()][-1] == "done"


def test_lines_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    from vknn.cli.batch import _tell_json
    from vknn.scale.outcome import Outcome

    outcome = Outcome(total=9)
    outcome.count([None, {"type": "InputError"}])
    _tell_json(sys.stdout, outcome)
    line = json.loads(capsys.readouterr().out)
    assert (line["state"], line["rows"], line["total"], line["errors"]) == ("running", 2, 9, 1)
    assert line["seconds"] >= 0 and line["rows_per_second"] >= 0


def test_dry_run(words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["batch", *map(str, words), *HOST, "--dry-run"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "5 records in 1 files (parquet" in text
    assert "input data from column data" in text and not (tmp_path / "out").exists()
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["source"]["records"] == 5 and found["engine"] == "local"


def test_formats(words: list[object], tmp_path: Path) -> None:
    done = batch(*words, "--format", "npz")
    assert done.returncode == 0 and f"written: {tmp_path / 'out'}.npz" in done.stdout
    with np.load(tmp_path / "out.npz") as arrays:
        np.testing.assert_array_equal(np.stack(list(arrays["out"])), np.square(vectors(5)))


@pytest.mark.parametrize("source", ["rows.npz", "*.npz"])
def test_a_source_is_not_written_over(source: str, tmp_path: Path) -> None:
    """The file of --output rows --format npz would be the source itself."""
    net, own = write_net(tmp_path), tmp_path / "rows.npz"
    np.savez(own, data=vectors(3))
    before = own.read_bytes()
    words = [net, tmp_path / source, "--output", tmp_path / "rows", "--format", "npz"]
    done = batch(*words)
    assert done.returncode == 2 and not (tmp_path / "rows").exists()
    assert f"would write {own}, which is in the source: give another folder" in done.stderr
    assert own.read_bytes() == before
    words[3] = tmp_path / "out"
    assert batch(*words).returncode == 0 and own.read_bytes() == before


def test_a_format_that_cannot_be_written_there_is_said_at_once(words: list[object]) -> None:
    words[words.index("--output") + 1] = "mock:///out"
    done = batch(*words, "--format", "jsonl")
    assert done.returncode == 2 and done.stdout == ""
    assert "only answers in a folder of this machine are converted" in done.stderr


@pytest.mark.parametrize(
    "more, code, text",
    [
        (["--input", "data"], 2, "write it as NAME=COLUMN, an input and a column"),
        (["--input", "data=x"], 2, "has no column 'x'"),
        (["--errors", "few"], 2, "errors='few': expected a number of records"),
        (["--check", "often"], 2, "check='often' is no share"),
        (["--recipe", "nowhere.json"], 2, "nowhere.json"),
        (["--layers", "nowhere.py"], 2, "nowhere.py"),
        (["--engine", "spark"], 2, "invalid choice: 'spark'"),
        (["--batch-size", "0"], 2, "batch_size=0"),
        (["--stacked", "0"], 2, "stacked=0: expected a whole number from 1 to 256"),
        (["--address", "ray://x"], 2, "an address is of a Ray cluster"),
    ],
)
def test_errors_are_lines(
    more: list[str], code: int, text: str, words: list[object],
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    try:
        found = main(["batch", *map(str, words), *HOST, *more])
    except SystemExit as end:
        found = int(str(end.code))
    told = capfd.readouterr()  # of the child, too
    assert (found, told.out) == (code, "")
    lines = told.err.splitlines()
    assert text in lines[-1] and (len(lines) == 1 or lines[0].startswith("usage: ")), told.err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["batch", "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in ("--output FOLDER", "--id COLUMN", "--errors N", "--redo-suspect", "--dry-run"):
        assert option in text
    assert "0.1%" in text


BLOCKED = """
import sys
sys.modules["pyarrow"] = None
sys.modules["ray"] = None
from vknn.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_pyarrow(words: list[object]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, "batch", *map(str, words), "--device", "numpy"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("vknn: error: tables are read and written with pyarrow, which cannot be")
    assert line.endswith('pip install "vknn[ray]"')


def test_a_pyarrow_that_is_too_old(
    words: list[object], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pytest.importorskip("pyarrow"), "__version__", "25.0.1")
    assert main(["batch", *map(str, words), "--device", "numpy"]) == 2
    text = "pyarrow 26 or newer; here is 25.0.1, which knows no tensors that are null: pip install"
    assert text in capfd.readouterr().err


def test_the_name_of_a_converted_file(words: list[object], tmp_path: Path) -> None:
    """It is no markup, and no line of some width."""
    output = tmp_path / ("[bold]" + "n" * 220)
    words[words.index("--output") + 1] = output
    done = batch(*words, "--format", "jsonl")
    assert done.stdout.splitlines()[-1] == f"written: {output}.jsonl", done.stderr
    assert Path(f"{output}.jsonl").is_file()


@pytest.mark.parametrize("what", ["vknn", "vknn.scale", "vknn.cli.batch"])
def test_imports_are_late(what: str) -> None:
    code = (
        f"import sys, {what}; print([m for m in ('ray', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert found.stdout == "[]\n", found.stderr


def test_a_local_job_imports_no_ray(words: list[object]) -> None:
    code = (
        "import sys\nfrom vknn import scale\n"
        "scale.run(*sys.argv[1:4], id='id', device='numpy')\nprint('ray' in sys.modules)"
    )
    model, source, _, output, *_ = map(str, words)
    found = subprocess.run(
        [sys.executable, "-c", code, source, model, output], capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert found.stdout == "False\n", found.stderr


def test_the_process_of_a_job_can_turn_to_ray(tmp_path: Path) -> None:
    """A large job finds out in the supervised process that it is one for Ray."""
    pytest.importorskip("ray.data")
    text = (
        "import sys\n"
        "from vknn.cli.supervised import supervised\n"
        "def work(_):\n"
        "    import pyarrow, ray.data\n"
        "    return pyarrow.array([7]).to_pandas()[0]\n"
        f"sys.exit(supervised({str(tmp_path)!r}, work))\n"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode == 7


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:6379"])
def test_a_cluster_that_is_not_there(
    address: str, words: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said at once; Ray tries for minutes."""
    pytest.importorskip("ray.data")
    begin = time.monotonic()
    assert main(["batch", *map(str, words), "--address", address]) == 2
    assert f"the cluster at {address} cannot be reached: " in capsys.readouterr().err
    assert time.monotonic() < begin + 40


def test_an_address_where_something_else_answers(
    words: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as Ray's dashboard, at which Ray itself tries for minutes."""
    pytest.importorskip("ray.data")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        assert main(["batch", *map(str, words), "--address", address]) == 2
        server.shutdown()
    assert (
        f"{address} cannot be reached: what answers there is no head of" in capsys.readouterr().err
    )


@pytest.mark.parametrize("function", ["supervised", "attended"])
def test_a_process_that_ray_ends_leaves_a_sentence(function: str, tmp_path: Path) -> None:
    """Ray's native part ends the process of a job whose cluster is gone with 1, and is silent."""
    code = (
        "import os, sys\n"
        "from vknn.cli import supervised\n"
        "from vknn.cli.main import guarded\n"
        "def work(*_):\n"
        "    os._exit(1)\n"
        f"given = [{str(tmp_path)!r}] if {function!r} == 'supervised' else []\n"
        f"sys.exit(guarded(lambda: supervised.{function}(*given, work)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("vknn: error: the process of the job was ended from within")
    assert "give the command again" in done.stderr


@pytest.mark.parametrize("code", [0, 1, 130])
def test_codes_of_jobs_with_ray(code: int) -> None:
    text = f"from vknn.cli.supervised import attended; raise SystemExit(attended(lambda: {code}))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
