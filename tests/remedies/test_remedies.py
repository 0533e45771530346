"""Error messages tell the truth about what helps: each remedy is applied and the call succeeds."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.remedies import (
    command_cases,
    device_cases,
    measurement_cases,
    model_cases,
    page_cases,
    picture_cases,
    setting_cases,
)
from tests.remedies.case import Case, Place
from tests.remedies.exemptions import ELSEWHERE, EXEMPT
from tests.remedies.texts import pattern, remedies

from vknn import environment
from vknn.cli import main
from vknn.cli.main import COMMANDS
from vknn.precision import ARITHMETICS, PRECISIONS
from vknn.runtime.device_selection import is_host
from vknn.runtime.spirv import shaderc

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    *command_cases.CASES,
    *picture_cases.CASES,
    *model_cases.CASES,
    *device_cases.CASES,
    *setting_cases.CASES,
    *measurement_cases.CASES,
    *page_cases.CASES,
]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.text[:40], marks=[getattr(pytest.mark, c.needs)] if c.needs else [])
        for c in CASES
    ],
)
def test_the_remedy_helps(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def called(step: Callable[[Place], object]) -> None:
        try:
            with pytest.MonkeyPatch.context() as monkeypatch:
                step(Place(tmp_path, monkeypatch, capsys))
        finally:
            shaderc.compiler.cache_clear()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(case.error, match=pattern(case.text)):
            called(case.fails)
        called(case.helps)


@pytest.mark.long
def test_every_remedy_is_tested() -> None:
    """A new one joins the cases, or the exemptions with its reason; one that is gone leaves."""
    listed = [c.text for c in CASES] + [*ELSEWHERE, *EXEMPT]
    assert set(remedies()) - set(listed) == set(), "remedies without a test"
    assert set(listed) - set(remedies()) == set(), "no message has this text any more"
    assert not {c.text for c in CASES} & (ELSEWHERE.keys() | EXEMPT.keys())
    assert not ELSEWHERE.keys() & EXEMPT.keys()


@pytest.mark.parametrize("test", sorted(set(ELSEWHERE.values())))
def test_the_other_tests_are_there(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.long
def test_what_remedies_name_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages, extras, commands, options, switches and values, in whatever text."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import prepare

    for check in ("has_loader", "has_driver", "has_layer"):
        monkeypatch.setattr(prepare, check, lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    packages = set(prepare.missing_packages(testing=True))
    extras = extras_of_the_project()
    switches = {switch.name for switch in environment.SWITCHES}
    for text in remedies():
        for names in re.findall(r"\(Debian[^:]*: (?:apt(?:-get)? install )?([\w -]+)\)", text):
            assert set(names.split()) <= packages, text
        for name in re.findall(r"pip install '?([\w\[\]]+)", text):
            inner = re.fullmatch(r"vknn\[(\w+)\]", name)
            assert inner[1] in extras if inner else name in packages_of_the_project(), text
        assert set(re.findall(r"VKNN_[A-Z_]+", text)) <= switches, text
        for name in re.findall(r"VKNN_DISABLE=(\w+)", text):
            assert name in environment.PARTS
        for name in re.findall(r"device='([^']+)'", text):
            assert is_host(name), text
        assert set(re.findall(r"precision='(\w+)'", text)) <= set(PRECISIONS), text
        assert set(re.findall(r"arithmetic='(\w+)'", text)) <= set(ARITHMETICS), text
        assert set(re.findall(r"`vknn (\w+)", text)) <= COMMANDS.keys(), text


def packages_of_the_project() -> str:
    """The packages that vknn or one of its extras depends on, as text."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return text.split("\ndependencies = [")[1].split("[project.scripts]")[0]


def extras_of_the_project() -> dict[str, str]:
    """Extras of pyproject.toml -> the packages in them, as text (Python 3.10 reads no TOML)."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    part = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    return dict(re.findall(r"^(\w+) = \[(.*?)\]$", part, re.MULTILINE | re.DOTALL))


@pytest.mark.long
def test_options_that_messages_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    offered = ""
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        offered += capsys.readouterr().out
    for text in remedies().keys() - EXEMPT.keys():
        for option in re.findall(r"(?<![\w-])--[a-z-]+", text):
            assert re.search(rf"{option}\b", offered), text
