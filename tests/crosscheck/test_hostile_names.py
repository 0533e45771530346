"""Names of a model file in the tables of all commands: neither markup nor control characters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import skip_without_half
from tests.onnx_writer import graph, model, node, save, value

import vknn
from vknn.cli import main

NAMES = ["[/red]", "a[red]b\x1b[31m\nc", "</script>'\"\N{FOX FACE}"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [node(op, "x[/x]\x1b", f"y{n}") for n, op in enumerate(("Tanh", "Sigmoid", "Relu"))]
    for made, name in zip(nodes, NAMES, strict=True):
        made.name = name
    net = graph(nodes, [value("x[/x]\x1b")], [value(f"y{n}") for n in range(3)])
    net.name = "net[/bold]\x1b[0m"
    return save(model(net), tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize(
    "options",
    [
        ("verify",), ("verify", "--metrics"), ("verify", "--search-steps", "2"),
        ("verify", "--precision", "fp16", "--advise"),
        ("profile", "--runs", "1"), ("profile", "--runs", "1", "--compiled"),
        ("profile", "--static"), ("info",), ("info", "--graph"), ("info", "--plan"),
        ("bench", "--runs", "1"), ("tune", "--runs", "1"),
    ],
    ids="_".join,
)  # fmt: skip
@pytest.mark.device
def test_tables_of_the_commands(
    options: tuple[str, ...], hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "fp16" in options:
        skip_without_half()
    assert main([options[0], str(hostile), *options[1:]]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told
    # A benchmark names the file alone.
    assert options[0] == "bench" or any(n in told for n in ("[/red]", "x[/x]", "net[/bold]"))


@pytest.mark.device
def test_records_and_kernels(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = vknn.crosscheck.dump(hostile, device="numpy")
    np.savez(tmp_path / "run.npz", **record)
    assert main(["compare", str(hostile), "--against", str(tmp_path / "run.npz")]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told and "[/red]" in told
    lab = str(tmp_path / "lab")
    assert main(["kernel", "extract", str(hostile), lab, "--layer", NAMES[1]]) == 0
    assert main(["kernel", "run", lab, "--runs", "1"]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told and "a[red]b" in told
