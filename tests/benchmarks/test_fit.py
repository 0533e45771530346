"""The fit of a GPU's costs: found again from times made of them, and the script around it."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.counting import cards, fit, kept
from benchmarks.counting.fit import Costs, Subject, Workload
from benchmarks.counting.report import between_markers, markdown
from benchmarks.counting.work import KINDS, Work

ROOT = Path(__file__).resolve().parents[2]
COSTS = Costs(run=700.0, dispatch=5.0, macs=0.4, megabyte=7.0, steps=3.5, grouped=2.5)


def made_up(networks: int = 14) -> dict[str, list[Work]]:
    """Networks of a character each: mostly bound by arithmetic, by bytes, by steps, or small."""
    draw = random.Random(7)

    def network() -> list[Work]:
        kind, macs, nbytes = draw.choice(KINDS), draw.uniform(3, 9), draw.uniform(3, 7)
        lanes = draw.uniform(3, 6)

        def near(center: float) -> int:
            return int(10 ** draw.uniform(center - 0.5, center + 0.5))

        count = draw.choice((3, 17, 59, 211))
        return [Work(kind, near(macs), near(nbytes), near(lanes)) for _ in range(count)]

    return {f"n{i}": network() for i in range(networks)}


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(made_up(40))


def times_of(workload: Workload, costs: Costs) -> dict[str, float]:
    return dict(zip(workload.names, workload.times(costs).tolist(), strict=True))


def subject(name: str, workload: Workload, costs: Costs, family: str = "f") -> Subject:
    return Subject(name, family, name, fit.expected(10, 400), workload, times_of(workload, costs))


def test_a_dispatch_takes_the_longest_of_its_parts() -> None:
    arithmetic = Work("product", 10**7, 10, 10**6)
    bytes_ = Work("map", 0, 3 * 10**6, 10**6)
    chain = Work("row", 10**6, 10, 100)
    grouped = Work("depthwise", 10**7, 10, 10**6)
    workload = Workload({"a": [arithmetic, bytes_], "b": [chain, grouped]})
    costs = Costs(run=100, dispatch=2, macs=3, megabyte=5, steps=7, grouped=4)
    assert workload.dispatches(costs) == pytest.approx([30, 15, 70, 120])
    assert workload.times(costs) == pytest.approx([100 + 4 + 45, 100 + 4 + 190])


def test_costs_are_found_again(workload: Workload) -> None:
    found = fit.fit(workload, times_of(workload, COSTS), fit.expected(10, 400).logs())
    assert np.abs(found.logs() - COSTS.logs()).max() < 0.1
    wrong = fit.errors(workload, times_of(workload, COSTS), found)
    assert max(map(abs, wrong.values())) < 0.05  # what is expected pulls a little


def test_noise_is_averaged(workload: Workload) -> None:
    draw = random.Random(3)
    times = {n: t * draw.uniform(0.9, 1.1) for n, t in times_of(workload, COSTS).items()}
    found = fit.fit(workload, times, fit.expected(10, 400).logs())
    wrong = fit.errors(workload, times_of(workload, COSTS), found)
    assert max(map(abs, wrong.values())) < 0.15


def test_what_is_left_out_does_not_count(workload: Workload) -> None:
    times = times_of(workload, COSTS)
    broken = {**times, "n3": times["n3"] * 100}
    prior = fit.expected(10, 400).logs()
    assert fit.fit(workload, broken, prior, without=["n3"]) == fit.fit(
        workload, times, prior, without=["n3"]
    )
    assert fit.errors(workload, broken, COSTS)["n3"] == pytest.approx(-0.99)


def test_costs_that_no_network_tells_of_stay_as_expected() -> None:
    flat = Workload({f"n{i}": [Work("map", 0, 4 * i, 10**6)] * 10 * i for i in range(1, 6)})
    prior = fit.expected(10, 400)
    found = fit.fit(flat, times_of(flat, COSTS), prior.logs())
    assert found.macs == pytest.approx(prior.macs, rel=1e-3)
    assert found.megabyte == pytest.approx(prior.megabyte, rel=1e-2)


def test_a_family_helps_where_a_network_is_missing() -> None:
    """Arithmetic shows only in one network; a GPU without its time learns of it from its kin."""
    networks = {f"n{i}": [Work("map", 0, 10**4, 10**5)] * 20 * i for i in range(1, 8)}
    networks["big"] = [Work("product", 10**9, 10**4, 10**6)] * 30
    workload = Workload(networks)
    slow = Costs(**{**vars(COSTS), "macs": 20 * fit.expected(10, 400).macs})
    known = [subject(name, workload, slow) for name in "ab"]
    whole = subject("c", workload, slow)
    times = {n: t for n, t in whole.times.items() if n != "big"}
    alone = Subject("c", "another", "c", whole.nominal, workload, times)
    within = Subject("c", "f", "c", whole.nominal, workload, times)
    error = [abs(np.log(fit.fit_all([*known, s])["c"].macs / slow.macs)) for s in (alone, within)]
    assert error[1] < error[0] / 3


def test_cross_validation_leaves_each_network_out_once_a_round(workload: Workload) -> None:
    subjects = [subject("a", workload, COSTS), subject("b", workload, COSTS)]
    found = fit.cross_validate(subjects, rounds=2)["a"]
    assert {len(errors) for errors in found.outside.values()} == {2}
    assert sorted(found.outside) == sorted(workload.names)
    assert len(found.left_out) == 2 * len(workload.names)
    assert max(map(abs, found.inside.values())) < 0.05
    name, error = found.worst
    assert abs(error) == max(found.left_out)
    assert error in found.outside[name]


def test_kept_rows_come_back(tmp_path: Path) -> None:
    works = [Work("map", 0, 5, 7), Work("row", 11, 13, 17), Work("map", 0, 5, 7)]
    path = tmp_path / "device" / "kept.json"
    kept.write(path, {"a": [1, 2], "rows": kept.rows_of(works), "empty": {}})
    found = json.loads(path.read_text())
    assert found["rows"] == [["map", 0, 5, 7, 2], ["row", 11, 13, 17, 1]]
    assert sorted(kept.works_of(found["rows"]), key=str) == sorted(works, key=str)
    assert (found["a"], found["empty"]) == ([1, 2], {})


def test_published_times_are_the_least_of_each_gpu(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    with path.open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["section", "device", "gpu", "net", "min_ms", "avg_ms"])
        writer.writerows([["s", "G", 0, "a", "2.5", 3], ["t", "G", 0, "a", "1.5", 9]])
    assert cards.published_times(path) == {"G": {"a": 1500.0}}


def test_cards_are_of_known_null_devices() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import null_drivers
    finally:
        sys.path.pop(0)
    assert {card.null for card in cards.CARDS} <= set(null_drivers.DEVICES)
    assert len({card.label for card in cards.CARDS}) == len(cards.CARDS)
    assert not cards.ON_THE_PROCESSOR & set(cards.NETWORKS)


def calibration(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "benchmarks" / "calibration.py"), *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)


def test_without_published_times_the_script_says_so(tmp_path: Path) -> None:
    done = calibration("--times", str(tmp_path / "none.csv"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("skipped: there are no published times")


def test_the_script_fits_what_is_kept(tmp_path: Path) -> None:
    """Times made of the kept counts by known costs: the table has them again."""
    path = ROOT / "benchmarks/results/modelled/navi21/ncnn-1.0.20231027.json"
    networks = json.loads(path.read_text())["networks"]
    workload = Workload({n: kept.works_of(v["rows"]) for n, v in networks.items()})
    table = tmp_path / "times.csv"
    lines = ["device,net,min_ms"]
    for name, time in times_of(workload, COSTS).items():
        lines.append(f"AMD Radeon RX 6900 XT,{name},{time / 1e3}")
    table.write_text("\n".join(lines) + "\n")
    done = calibration("--times", str(table), "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "On 1 of 1 GPUs, of 1 vendors (AMD)" in done.stdout
    assert "| RX 6900 XT | navi21 | 18 |" in done.stdout


def test_tables_go_between_their_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n")
    between_markers(page, "x", markdown(["h", "i"], [["1", "2"]]))
    assert page.read_text() == (
        "a\n<!-- x: begin -->\n| h | i |\n| --- | ---: |\n| 1 | 2 |\n<!-- x: end -->\nb\n"
    )
    with pytest.raises(ValueError, match="lacks the lines"):
        between_markers(page, "y", "")
