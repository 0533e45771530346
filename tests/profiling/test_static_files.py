"""Static profiles as files: two of them compared without a device, and files that are damaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.profiling.test_static import counted

from vknn.cli import main
from vknn.errors import VknnError
from vknn.profiling import StaticEntry, StaticProfile, static_difference


def written(path: Path, *entries: StaticEntry) -> Path:
    path.write_text(StaticProfile("net", "GPU", entries).to_json(), encoding="utf-8")
    return path


def slower(entry: StaticEntry, factor: float) -> StaticEntry:
    assert entry.modelled is not None
    time = factor * entry.modelled.time
    return dataclasses.replace(entry, modelled=dataclasses.replace(entry.modelled, time=time))


def test_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(tmp_path / "before.json", counted(registers=40))
    after = written(tmp_path / "after.json", counted(registers=32))
    assert main(["compare", str(before), str(after)]) == 0
    assert "1 of 1 dispatches differ" in capsys.readouterr().out
    assert main(["compare", str(before), str(after), "--json"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["pairs"]
    assert (pair["before"]["registers"], pair["after"]["registers"]) == (40, 32)
    assert StaticProfile.load(before).entries == (counted(registers=40),)


@pytest.mark.parametrize(("factor", "code"), [(0.5, 0), (1.0, 0), (1.04, 0), (1.06, 1)])
def test_a_sum_that_grows(
    factor: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = written(tmp_path / "before.json", counted())
    after = written(tmp_path / "after.json", slower(counted(), factor))
    assert main(["compare", str(before), str(after)]) == 0
    assert main(["compare", str(before), str(after), "--fail-over", "5%"]) == code
    assert f"({factor - 1:+.1%})" in capsys.readouterr().out


def test_names_stay_where_all_numbers_differ() -> None:
    """As between two devices, whose table is wider than it may be."""
    before = counted(code=123_456, instructions=65_432, cycles=98_765_432, latency=99_876_543)
    counts = dict.fromkeys(("registers", "spills", "scratch", "shared", "waves"), 54_321)
    after = counted(code=7_654_321, instructions=7_123_456, cycles=1_234, latency=4_321, **counts)
    found = str(
        static_difference(StaticProfile("net", "A", (before,)), StaticProfile("net", "B", (after,)))
    )
    (row,) = (line for line in found.splitlines() if before.layers[0] in line)
    assert before.label in row
    for number in ("123,456", "98,765,432", "99,876,543", "54,321", "7,654,321"):
        assert number in found


def test_what_does_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = written(tmp_path / "one.json", dataclasses.replace(counted(), modelled=None))
    other = tmp_path / "other.json"
    other.write_text('{"a": []}')
    for more, text in (
        ([str(other)], f"{one} is a static profile and {other} is none"),
        ([str(tmp_path / "gone.json")], f"{tmp_path / 'gone.json'}: no such file"),
        ([str(tmp_path)], f"{tmp_path}: this is no file"),
        ([str(one), "--html", "page.html"], "--html is not for static profiles"),
        ([str(one), "--paired"], "--paired is not for static profiles"),
        ([str(one), "--fail-over", "5%"], "a dispatch has no modelled time"),
    ):
        assert main(["compare", str(one), *more]) == 2
        assert text in capsys.readouterr().err


def test_sums_that_rest_on_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A layer that went to the host, or other latencies, are no gain of the kernels."""
    paths, profiles = [], []
    for name, assumptions, left_out in (("a", "latencies 1", ""), ("b", "latencies 2", "1 layer")):
        profiles.append(StaticProfile("net", "GPU", (counted(),), assumptions, left_out))
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(profiles[-1].to_json(), encoding="utf-8")
    found = static_difference(*profiles)
    assert found.remarks == ["assumptions: latencies 1 -> latencies 2", "left out: none -> 1 layer"]
    assert static_difference(profiles[0], profiles[0]).remarks == []
    assert main(["compare", *map(str, paths)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(remark in shown for remark in found.remarks)
    document = json.loads(found.to_json())
    assert document["after"]["left_out"] == "1 layer" and document["before"]["left_out"] == ""
    assert document["after"]["assumptions"] == "latencies 2"


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to all that a document is made of."""
    if not isinstance(value, dict | list):
        return [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(p for key, item in inner for p in places(item, (*path, key)))]


@pytest.mark.parametrize("wrong", [None, "x", -1, 1e400, float("nan"), [], {}, [[1]], {"a": 1}])
def test_damaged_files(wrong: Any, tmp_path: Path) -> None:
    """Each part in turn is something else: it is refused, or can be shown."""
    profile = StaticProfile("net", "GPU", (counted(registers=7),))
    plain = json.loads(profile.to_json())
    refused: list[str] = []
    ways = places(plain)[1:]
    for way in ways:
        document = json.loads(profile.to_json())
        target = document
        for key in way[:-1]:
            target = target[key]
        target[way[-1]] = wrong
        try:
            found = StaticProfile.from_json(json.dumps(document))
        except VknnError as error:
            refused.append(str(error))
        else:
            assert str(found) and found.to_json()
    assert len(refused) > len(ways) // 4 and len(ways) > 40
    assert all("no static profile as JSON" in text for text in refused)


def test_the_sum_of_the_table_is_that_of_the_verdict() -> None:
    """Not one of rounded times."""
    entries = [slower(counted(), factor) for factor in (1.14 / 12.34, 2.14 / 12.34, 3.14 / 12.34)]
    profile = StaticProfile("net", "GPU", tuple(entries))
    found = json.loads(static_difference(profile, profile).to_json())
    assert profile.time is not None
    assert found["after"]["sums"]["time"] == round(profile.time, 1) == 6.4


def test_texts_of_a_file_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = "[/red]a[bold]\x1b[31m\n"
    entry = dataclasses.replace(counted(), kernel=wild, label=wild, flags=(wild,))
    profile = StaticProfile(wild, wild, (entry,), wild)
    path = tmp_path / "wild.json"
    path.write_text(profile.to_json())
    assert main(["compare", str(written(tmp_path / "a.json", counted())), str(path)]) == 0
    for text in (str(profile), capsys.readouterr().out):
        assert "[/red]a[bold]" in text and "\x1b" not in text


def test_unknown_fields_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", counted())
    document = json.loads(path.read_text())
    document["dispatches"][0]["counts"]["more"] = 1
    path.write_text(json.dumps(document))
    with pytest.raises(VknnError, match=r"a\.json: .*dispatches\[0\]\.counts\.more: there is no"):
        StaticProfile.load(path)
