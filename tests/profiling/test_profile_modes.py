"""Options of ``vknn profile``: what a mode has no use for is refused by name, before anything runs,
and what the command itself means does not reach the processes of a comparison."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest
from tests.small_model import write_small_model

from vknn.cli import profile as command
from vknn.cli.main import main
from vknn.cli.profile_modes import mode_of
from vknn.cli.versus import _rest
from vknn.errors import VknnError
from vknn.profiling import versus
from vknn.profiling.comparison.versus import ProfiledSetting, _Process, _sources

VERSUS = ["--versus", "--runs 3"]
CAPTURE = ["--capture", "renderdoc"]
COUNTERS = ["--counters", "L2*"]
LIST = ["--counters", "list"]
#: Options that show or keep something, with a value where they need one.
KEPT = [["--save", "a.vkprof"], ["--html", "a.html"]]
MEASURED = [["--trace", "a.json"], ["--compiled"], ["--device-limits", "l.json"]]
HOW_OFTEN = [["--runs", "3"], ["--warmup", "1"], ["--sort", "time"]]
STATIC = [["--static"], ["--isa", "isa"], ["--latencies", "2"], ["--against", "old.json"]]


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add(parser)
    return parser.parse_args(["net.param", *options])


@pytest.mark.parametrize(
    ("mode", "refused", "remedy"),
    [
        *((VERSUS, o, "leave one of them out") for o in (*MEASURED, *STATIC, COUNTERS, CAPTURE)),
        (VERSUS, ["--save", "a.vkprof"], "--keep FOLDER keeps the profiles of both sides"),
        (VERSUS, ["--capture-file", "a"], "leave one of them out"),
        *((CAPTURE, o, "leave one of them out") for o in (*KEPT, *MEASURED, *HOW_OFTEN)),
        *((CAPTURE, o, "leave one of them out") for o in (*STATIC, COUNTERS, ["--limit", "1"])),
        *((COUNTERS, o, "add --save FILE or --html FILE") for o in (*MEASURED, *HOW_OFTEN)),
        *((COUNTERS, o, "leave one of them out") for o in STATIC[1:]),
        *((LIST, o, "leave one of them out") for o in (*KEPT, *MEASURED, ["--limit", "1"])),
        *((["--static"], o, "leave one of them out") for o in (KEPT[0], MEASURED[0], COUNTERS)),
        *((["--static"], o, "leave one of them out") for o in HOW_OFTEN),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_mode_has_no_use_for(
    mode: list[str], refused: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names both options, and the model is not even looked for."""
    assert main(["profile", "missing.param", *mode, *refused]) == 2
    told = capsys.readouterr().err
    assert all(f"{options[0]} " in told or f"{options[0]}:" in told for options in (mode, refused))
    assert remedy in told


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ([], ""),
        ([*KEPT[0], *KEPT[1], *MEASURED[0], *MEASURED[1], *MEASURED[2], *HOW_OFTEN[0]], ""),
        ([*COUNTERS, "--limit", "3", "--json"], "counters"),
        ([*COUNTERS, "--no-compiled", "--runs", "10"], "counters"),
        ([*COUNTERS, *KEPT[0], *MEASURED[0], *MEASURED[1], *HOW_OFTEN[0]], ""),
        ([*COUNTERS, *KEPT[1], *MEASURED[2]], ""),
        ([*LIST, "--json"], "counters list"),
        ([*CAPTURE, "--capture-file", "a", "--json"], "capture"),
        (["--static", "--isa", "isa", "--against", "old.json", "--limit", "3"], "static"),
        ([*VERSUS, "--runs", "3", "--html", "a.html", "--no-compiled", "--sort", "time"], "versus"),
    ],
)
def test_what_goes_together(options: list[str], mode: str) -> None:
    assert mode_of(parsed(*options)) == mode


def test_a_side_gets_its_own_options_alone() -> None:
    """Neither the page nor anything else that is the comparison's; abbreviations are known."""
    own = ["net.param", "--precision", "fp16", "--disable", "fusion", "--seed", "3"]
    whole = ["--html", "a.html", "--htm", "b.html", "--json", "--sort", "time", "--limit", "3"]
    whole += ["--pairs", "2", "--one-by-one", "--keep", "kept", "--fail-over", "5%"]
    whole += ["--markdown", "a.md", "--junit", "a.xml", "--no-compiled", *VERSUS]
    assert _rest(argparse.Namespace(given=["profile", *own, *whole])) == own


def test_the_page_is_the_comparison_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page = write_small_model(tmp_path), tmp_path / "a.html"
    given = ["profile", str(model), "--device", "numpy", "--runs", "2", "--warmup", "0"]
    assert main([*given, *VERSUS, "--pairs", "1", "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["units"] == [2, 3]
    text = page.read_text(encoding="utf-8")
    block = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert block is not None
    assert "rows" in json.loads(block[1])
    assert [path.name for path in tmp_path.glob("*.html")] == ["a.html"]


@pytest.mark.parametrize("other", ["--html a.html", "--json", "--counters=L2", "--save x --runs 3"])
def test_a_side_that_asks_for_more_than_its_own(other: str) -> None:
    name = re.split("[ =]", other)[0]
    with pytest.raises(VknnError, match=f"{name} is no option of one side .*: leave it out there"):
        versus(["net.param"], other)


FAKE = """import sys
HELP = {help!r}
def main():
    if "--help" in sys.argv:
        print(HELP)
        return 0
    with open({log!r}, "w") as file:
        file.write("\\n".join(sys.argv))
    raise SystemExit("it does nothing")
"""


@pytest.mark.parametrize("known", [True, False])
def test_a_process_by_itself_compiles_nothing_once_more(known: bool, tmp_path: Path) -> None:
    """Where a checkout knows the option, it gets it; an older one is run without."""
    folder, log = tmp_path / "src" / "vknn", tmp_path / "log"
    (folder / "cli").mkdir(parents=True)
    for file in (folder / "__init__.py", folder / "cli" / "__init__.py"):
        file.write_text("")
    text = "  --compiled, --no-compiled" if known else "  --save FILE"
    (folder / "cli" / "main.py").write_text(FAKE.format(help=text, log=str(log)))
    model = str(write_small_model(tmp_path))
    given = [model, "--device", "numpy", "--runs", "1", "--warmup", "0"]
    with pytest.raises(VknnError, match="the after side failed: it does nothing"):
        versus(given, str(tmp_path), pairs=1, one_by_one=True)
    assert ("--no-compiled" in log.read_text().splitlines()) == known


def test_this_vknn_by_itself_compiles_nothing_once_more(tmp_path: Path) -> None:
    setting = ProfiledSetting(_sources(), ("net.param", "--compiled"))
    process = _Process("before", setting, tmp_path / "a.vkprof")
    alone, in_turn = process.command(turns=False), process.command(turns=True)
    assert alone.index("--no-compiled") < alone.index("--compiled")  # what is asked for counts
    assert "--no-compiled" not in in_turn
