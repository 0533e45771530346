"""The comparison with ncnn, without measuring: figures, goals, tables, JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.comparison import measure, memory, overhead, results, tables
from benchmarks.comparison.results import EMPTY, NCNN, VKNN, WARM, Comparison, Kernel, Network

from vknn.formats.ncnn.reader import parse_param

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {
    "gflops": 100.0,
    "gbytes": 30.0,
    "shader_gbytes": 10.0,
    "dispatch": 2e-5,
    "submit": 3e-5,
}


def network(name: str, ours: list[float], theirs: list[float], **more: object) -> Network:
    base = Network(
        name=name,
        runs={VKNN: ours, NCNN: theirs},
        difference=1e-6,
        cold={s: {VKNN: [0.2, 0.1], NCNN: [0.4, 0.5]} for s in (EMPTY, WARM)},
        memory={VKNN: 10 << 20, NCNN: 20 << 20},
        rss={VKNN: 100 << 20, NCNN: 200 << 20},
        kernels=[Kernel("convolution/conv", 3, 2e-3, 1.0, 10**8, 10**6, 1e-3)],
    )
    return dataclasses.replace(base, **more)  # type: ignore[arg-type]


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(
        device="a device",
        date="2020-01-02",
        versions={"vknn": "1"},
        networks=[network("a", [1.0, 2.0], [4.0, 4.0]), network("b", [1.0, 1.0], [16.0, 9.0])],
        limits=LIMITS,
        overhead={"dispatches": 100, "run": 3e-3, "waited": 2.9e-3, "host": 1e-4, "submit": 3e-5},
    )


def verdicts(comparison: Comparison) -> list[bool | None]:
    return [goal.ok for goal in comparison.goals()]


def test_geometric_mean() -> None:
    assert results.geometric_mean([2.0, 8.0]) == pytest.approx(4)
    assert results.geometric_mean([None, 3.0]) == pytest.approx(3)
    assert results.geometric_mean([None]) is None


def test_ratios(comparison: Comparison) -> None:
    a, b = comparison.networks
    assert (a.least_ratio, a.median_ratio) == (4.0, pytest.approx(4 / 1.5))
    assert (b.least_ratio, b.median_ratio) == (9.0, 12.5)
    assert comparison.means()[0] == pytest.approx(6)
    assert comparison.means()[1] == pytest.approx(math.sqrt(4 / 1.5 * 12.5))
    assert a.cold_share(WARM) == pytest.approx(0.25)
    assert a.memory_share == 0.5
    nothing = Network("c")
    assert (nothing.least_ratio, nothing.memory_share, nothing.cold_share(EMPTY)) == (None,) * 3


def test_goals_reached(comparison: Comparison) -> None:
    assert verdicts(comparison) == [True] * 6


def test_goals_missed(comparison: Comparison) -> None:
    slow = network(
        "slow",
        [1.0],
        [1.2],
        cold={EMPTY: {VKNN: [3.0], NCNN: [4.0]}},
        memory={VKNN: 3, NCNN: 2},
    )
    worse = dataclasses.replace(
        comparison, networks=[slow], overhead={**comparison.overhead, "host": 0.00028}
    )
    assert verdicts(worse) == [False, False, False, None, False, False]
    assert "slow" in worse.goals()[2].found


def test_what_failed_reaches_no_goal(comparison: Comparison) -> None:
    networks = [*comparison.networks, Network("broken", errors=["steady: exit code -11"])]
    partial = dataclasses.replace(comparison, networks=networks)
    assert verdicts(partial) == [False, False, False, False, False, True]
    assert "failed: broken" in partial.goals()[0].found
    assert "broken: steady: exit code -11" in tables.text(partial)


def test_nothing_measured() -> None:
    assert verdicts(Comparison("d", "t", {}, [])) == [None] * 6


def test_json_comes_back(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(comparison.to_json())
    assert results.read(path) == comparison
    document = json.loads(path.read_text())
    assert document["geometric_mean"]["least"] == pytest.approx(6)
    assert [g["ok"] for g in document["goals"]] == [True] * 6
    assert document["networks"][0]["least_ratio"] == 4.0


def test_tables(comparison: Comparison) -> None:
    text = tables.text(comparison)
    for wanted in ("a device, 2020-01-02", "geometric mean", "kernels of a", "50%", "50.0", "6.00"):
        assert wanted in text
    page = tables.markdown(comparison)
    assert "kernels of a" not in page
    assert "kernels over all networks" in page
    for sheet in tables.sheets(comparison):
        assert all(len(row) == len(sheet.heads) for row in sheet.rows)
    assert "first answer" not in tables.text(Comparison("d", "t", {}, [Network("x")]))


def test_the_page_is_updated_between_its_markers(comparison: Comparison, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs/performance.md").read_text())
    head = page.read_text().partition(tables.BEGIN)[0]
    for _ in range(2):
        tables.update_page(page, comparison)
    text = page.read_text()
    assert text.startswith(head)
    assert text.count(tables.BEGIN) == text.count("a device, 2020-01-02") == 1
    page.write_text("no markers")
    with pytest.raises(ValueError, match="lacks the lines"):
        tables.update_page(page, comparison)


def test_kernels_against_the_limits() -> None:
    found = [
        {"name": "small", "seconds": 1.0, "work": [(0, 5 * 10**9)]},
        {"name": "large", "seconds": 3.0, "work": [(10**11, 10**9), (10**9, 10**10)]},
    ]
    large, small = measure.kernels(found, LIMITS)
    assert (large.name, large.dispatches, large.share) == ("large", 2, 0.75)
    assert large.ideal == pytest.approx(1.0 + 1.0)
    assert large.of_limit == pytest.approx(2 / 3)
    assert large.gflops == pytest.approx(101 / 3)
    assert small.of_limit == pytest.approx(0.5)
    assert measure.kernels(found, {})[0].of_limit == 0.0


def test_the_chain_is_a_network() -> None:
    net = parse_param(overhead.chain(5).encode(), "chain")
    assert [layer.type for layer in net.layers] == ["Input", *["Convolution"] * 5]


def test_peaks_of_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert memory.peak(log) is None
    log.write_bytes(bytes(24))
    assert memory.peak(log) is None
    log.write_bytes(b"".join(n.to_bytes(8, sys.byteorder) for n in (1, 7, 2)))
    assert memory.peak(log) == 7


@pytest.mark.device
def test_the_layer_counts_what_the_device_counts(tmp_path: Path) -> None:
    layer = memory.build_layer(tmp_path)
    if layer is None:
        pytest.skip("needs a C compiler")
    code = (
        "from vknn.runtime import open_device, Executable\n"
        "from vknn.profiling import limit_plans\n"
        "with open_device() as d:\n"
        "    with Executable(d, limit_plans.transfer(1 << 20)) as e: e.run({})\n"
        "    print(d.memory_peak)\n"
    )
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **memory.layer_environment(layer, log), "VKNN_VALIDATE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert memory.peak(log) == int(done.stdout.split()[-1]) > 2 << 20


@pytest.mark.device
def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    place = measure.Workplace(tmp_path, measure.Settings(device="no such device"))
    with pytest.raises(measure.Failed, match="no such device"):
        place.run("limits", {"runs": 1})


@pytest.mark.device
def test_the_host_s_time_of_a_run_is_told_from_the_device_s(tmp_path: Path) -> None:
    found = overhead.measure_overhead("auto", tmp_path, 3)
    assert found["dispatches"] == overhead.DISPATCHES
    assert 0 < found["host"] < found["run"] and 0 < found["waited"] < found["run"]
