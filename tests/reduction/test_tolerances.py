"""Tolerances of reduction and bisection: an error of a hundredth is found below that only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reduction.networks import FAULTY, write_network

from vknn.cli.main import main

pytestmark = pytest.mark.device
#: All results of a layer are larger by a hundredth.
HUNDREDTH = 8
#: Tolerance of an operator, of any value, and how the model fails then: by an operator alone, by
#: what adds up behind it, or not at all.
CASES = [(0.009, 0.5, "alone"), (0.011, 0.5, None), (0.011, 0.001, "together")]


def told(
    capsys: pytest.CaptureFixture[str], fails: bool, command: str, *arguments: object
) -> dict[str, Any]:
    """The report of a command on a network, which says whether it fails."""
    argv = [command, *map(str, arguments), "--layers", str(FAULTY), "--json"]
    assert main(argv) == int(fails)
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def given(own: float, cumulative: float) -> list[object]:
    return ["--tolerance", own, "--cumulative-tolerance", cumulative]


@pytest.mark.parametrize(("own", "cumulative", "how"), CASES)
def test_reduce(
    own: float,
    cumulative: float,
    how: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, small = write_network(tmp_path, HUNDREDTH), tmp_path / "small"
    fast = ["--limit", 0.001] if how == "together" else []
    arguments = [model, "-o", small, *given(own, cumulative), *fast]
    report = told(capsys, how is not None, "reduce", *arguments)
    assert report["ok"] is (how is None) and small.exists() != report["ok"]
    if how is not None:
        assert (report["failure"]["kind"], report["failure"]["detail"]) == ("wrong", how)
    if how == "alone":
        assert report["operators"] == [{"layer": "middle", "op": "Faulty"}]
        text = (small / "README.md").read_text()
        assert f"--tolerance {own} --cumulative-tolerance {cumulative} " in text
        told(capsys, True, "verify", small, *given(own, cumulative))
        told(capsys, False, "verify", small, *given(0.011, cumulative))


@pytest.mark.slow
@pytest.mark.parametrize(("own", "cumulative", "how"), CASES)
def test_bisect(
    own: float,
    cumulative: float,
    how: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = write_network(tmp_path, HUNDREDTH)
    report = told(capsys, how is not None, "bisect", model, *given(own, cumulative))
    assert report["ok"] is (how is None)
    if how is not None:
        assert (report["failure"]["kind"], report["failure"]["detail"]) == ("wrong", how)
        assert [s["name"] for s in report["switches"]] == ["kernel:Faulty/shader"]
