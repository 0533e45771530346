"""Pages in Chromium: what they show is read back and held against the document."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reports.chromium import Page
from tests.reports.documents import document, medians

from vknn.reports import save

Shown = Callable[[dict[str, Any]], Page]

#: Texts of the rows in sight, by the class of their cells.
ROWS = """[...document.querySelectorAll('#table tbody tr[data-row]')].map(row =>
    Object.fromEntries([...row.cells].map(cell => [cell.className.match(/is-(\\w+)/)[1],
                                                   cell.textContent])))"""


def rows(page: Page) -> list[dict[str, str]]:
    return page.value(ROWS)


def number(text: str) -> float:
    return float(text.replace(",", "").replace("⚠", ""))


def draw_all(page: Page) -> None:
    """All parts, as a reader sees them who scrolls to each."""
    for part in ("where", "timeline", "roofline", "memory", "source"):
        page.scroll_to(part, f"#{part} .piece, #{part} pre, #{part} > p")


def pieces(page: Page, part: str) -> list[str]:
    """What the pieces of a part's charts are called."""
    page.scroll_to(part, f"#{part} .piece")
    found = f"[...document.querySelectorAll('#{part} .piece')]"
    return page.value(f"{found}.map(piece => piece.getAttribute('aria-label'))")


def filter_by(page: Page, words: str) -> None:
    page.value("document.getElementById('filter').focus()")
    page.value("document.getElementById('filter').select()")
    page.call("Input.insertText", text=words)


def choose(page: Page, part: str, value: str, number: int = 0) -> None:
    select = f"document.querySelectorAll('#{part} select')[{number}]"
    page.value(f"{select}.value = '{value}'; {select}.dispatchEvent(new Event('change'))")


def select_row(page: Page, number: int) -> None:
    page.value(f"document.querySelector('#table [data-row=\"{number}\"]').click()")


def test_table_holds_the_numbers_of_the_document(shown: Shown) -> None:
    made = document(12)
    page, times = shown(made), medians(made)
    found = rows(page)
    assert [int(row["index"]) for row in found] == sorted(range(12), key=lambda i: -times[i])
    commands = made["segments"][0]["commands"]
    for row in found:
        i = int(row["index"])
        assert number(row["median"]) == pytest.approx(times[i], abs=0.06)
        assert number(row["share"]) == pytest.approx(100 * times[i] / sum(times), abs=0.06)
        assert (row["layer"], row["kernel"]) == (f"layer {i // 2}", commands[i]["kernel"])
        gbytes = commands[i]["nbytes"] / times[i] / 1e3
        assert number(row["gbytes"]) == pytest.approx(gbytes, abs=0.06)
    total = page.value("Number(document.getElementById('totals').dataset.median)")
    assert total == pytest.approx(sum(times), abs=0.1)


def test_totals_follow_the_filter(shown: Shown) -> None:
    made = document(40)
    page, times = shown(made), medians(made)
    filter_by(page, "CONV tile")
    assert {row["op"] for row in rows(page)} == {"Conv"}
    foot = page.value("({...document.getElementById('totals').dataset})")
    assert foot["count"] == "10"
    assert float(foot["median"]) == pytest.approx(sum(times[::4]), abs=0.1)
    filter_by(page, "there is none")
    assert rows(page) == []
    assert page.value("document.getElementById('totals').dataset.median") == "0"


@pytest.mark.parametrize("grouping", ["layer", "op", "kernel"])
def test_groups_are_sums(shown: Shown, grouping: str) -> None:
    made = document(16)
    page, sums = shown(made), defaultdict(float)
    for command, time in zip(made["segments"][0]["commands"], medians(made), strict=True):
        key = command["layers"][0] if grouping == "layer" else command[grouping]
        sums[key] += time
    choose(page, "table", grouping)
    found = rows(page)
    assert {row["name"]: number(row["median"]) for row in found} == pytest.approx(sums, abs=0.06)
    select_row(page, 0)  # a group opens as its dispatches
    assert number(page.value("document.getElementById('totals').dataset.median")) == pytest.approx(
        max(sums.values()), abs=0.06
    )


def test_columns_sort_both_ways(shown: Shown) -> None:
    page = shown(document(20))
    for column, read in (("least", number), ("kernel", str)):
        click = f"document.querySelector('#table [data-column={column}]').click()"
        page.value(click)
        once = [read(row[column]) for row in rows(page)]
        page.value(click)
        twice = [read(row[column]) for row in rows(page)]
        assert sorted([once, twice]) == sorted([sorted(once), sorted(once, reverse=True)])
        order = page.value(
            "document.querySelector('[aria-sort$=ending]').getAttribute('aria-sort')"
        )
        assert order == ("ascending" if twice == sorted(twice) else "descending")


def test_keys_reach_rows_and_pieces(shown: Shown) -> None:
    made = document(12)
    page, times = shown(made), medians(made)
    order = sorted(range(12), key=lambda i: -times[i])
    detail = "document.querySelector('#detail dd').textContent"
    page.value("document.querySelector('.scroller').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        page.key(key)
    assert int(page.value(detail)) == order[1]
    page.key("End")
    page.key("Enter")
    assert int(page.value(detail)) == order[-1]
    assert pieces(page, "timeline")
    page.value("document.querySelector('#timeline svg.chart').focus()")
    page.key("End")
    for _ in range(12 + 11):  # back over the gaps to the first command
        page.key("ArrowLeft")
    page.key("ArrowRight")
    page.key("Enter")
    assert re.match(r"\d+$", page.value(detail))
    active = "document.querySelector('#timeline svg.chart').getAttribute('aria-activedescendant')"
    assert page.value(f"document.getElementById({active}).getAttribute('role')") == "option"


def test_charts_show_half_of_the_time_as_half(shown: Shown) -> None:
    made = document(20, per_layer=1, runs=1)
    for run in made["runs"]:
        spans = run["segments"][0]["spans"]
        others = sum(end - begin for begin, end in spans[:-1])
        spans[-1][1] = spans[-1][0] + others
    page = shown(made)
    assert any(
        words.startswith("layer 19") and "50.0 %" in words for words in pieces(page, "where")
    )
    boxes = page.value("""[...document.querySelectorAll('#where .piece')]
        .filter(piece => piece.getAttribute('aria-label').startsWith('layer 19'))
        .map(piece => piece.querySelector('rect')).map(rect => [rect, rect.closest('svg').viewBox])
        .map(([rect, box]) => [rect.width.baseVal.value / box.baseVal.width,
                               rect.height.baseVal.value / box.baseVal.height])""")
    *icicle, (width, height) = boxes
    assert all(wide == pytest.approx(0.5, abs=0.01) for wide, _ in icicle)
    assert len(icicle) == 2  # layer and dispatch; between them is the op
    assert width * height == pytest.approx(0.5, abs=0.01)


def test_timeline_names_the_gap_that_was_planted(shown: Shown) -> None:
    made = document(10)
    for run in made["runs"]:
        part = run["segments"][0]
        part["spans"][6:] = [[b + 500e-6, e + 500e-6] for b, e in part["spans"][6:]]
        part["seconds"] += 500e-6
    names = pieces(shown(made), "timeline")
    gaps = [float(found[1]) for n in names if (found := re.match(r"gap of ([\d.]+) µs", n))]
    assert max(gaps) == 501.0
    assert [gap for gap in gaps if gap > 10] == [501.0]
    assert sum("submit" in name for name in names) == 2
    assert sum(name.startswith("layer ") for name in names) == 10


def test_roofline_says_what_the_ceiling_would_save(shown: Shown) -> None:
    made = document(9)
    commands = made["segments"][0]["commands"]
    # Of the first, 2 ms are 1 ms of arithmetic at the ceiling; the second is at that of memory.
    planted = [(1_000_000_000, 1000, 2e-3), (1000, 10_000_000, 1e-4)]
    for i, (flops, nbytes, seconds) in enumerate(planted):
        commands[i].update(flops=flops, nbytes=nbytes)
        for run in made["runs"]:
            begin = run["segments"][0]["spans"][i][0]
            run["segments"][0]["spans"][i] = [begin, begin + seconds]
    page = shown(made)
    pieces(page, "roofline")
    for i, words in (
        (0, "layer 0: 50.0 % of the ceiling (fp32 arithmetic), 2.0 times away from it; "),
        (1, "layer 0: above the ceiling|100.0 % of the ceiling (memory, storage buffer)"),
    ):
        point = f"document.querySelector('#roofline [data-command=\"{i}\"]')"
        page.value(f"{point}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        told = page.value("document.getElementById('roofline-told').textContent")
        assert any(part in told for part in words.split("|")), told
        saved = f"{planted[0][2] * 500:.3f}" if i == 0 else "0.000"
        assert f"would save {saved} ms" in told or (i == 1 and "above" in told)
    ceilings = page.value(
        "[...document.querySelectorAll('#roofline .tick')].map(t => t.textContent)"
    )
    for name in (
        "fp32 1,000 GFLOP/s",
        "storage buffer 100.0 GB/s",
        "imageLoad 60.0 GB/s",
        "fp16 2,000 GFLOP/s",
        "integer dot 4,000 GOP/s",
    ):
        assert name in ceilings


def test_without_limits_there_are_no_ceilings(shown: Shown) -> None:
    page = shown(document(6, limits=False))
    assert "saved" not in rows(page)[0]
    assert pieces(page, "roofline")
    assert "no measured limits" in page.value("document.getElementById('roofline').textContent")
    assert page.value("document.querySelectorAll('#roofline .ceiling').length") == 0


def test_memory_says_who_holds_what(shown: Shown) -> None:
    made = document(9)
    page = shown(made)
    names = pieces(page, "memory")
    assert len(names) == 10
    assert any(n.startswith("value 4: 64.0 KiB at 65,536, from command 3") for n in names)
    select = "[...document.querySelectorAll('#memory .piece')].find(p => "
    select += "p.getAttribute('aria-label').startsWith('value 4:'))"
    page.value(f"{select}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    users = page.value("[...document.querySelectorAll('#memory li')].map(li => li.textContent)")
    assert [u.rsplit(" ", 2)[1] for u in users] == ["write", "read"]
    page.value("document.querySelector('#table [data-row=\"0\"]').click()")
    told = page.value("document.querySelector('#memory .told').textContent")
    assert "buffers hold 128.0 KiB" in told


def test_source_has_constants_applied_and_machine_code_beside(shown: Shown) -> None:
    made = document(8, static=True)
    page = shown(made)
    filter_by(page, "layer 0 matmul")
    select_row(page, 0)
    marks = page.value("[...document.querySelectorAll('#source mark')].map(m => m.textContent)")
    text = "".join(marks)
    assert "const int ROWS = 9;  // constant 10, else 4" in text
    assert "const float SCALE = 2.0;" in text
    assert "local_size_x = 64, local_size_y_id = 1" in text
    assert "constant 100 = inf" in page.value("document.getElementById('source').textContent")
    assert "v_fma_f32 v1" in page.value("document.querySelector('#source .isa').textContent")


def test_a_kernel_that_spills_is_marked(shown: Shown) -> None:
    page = shown(document(8, static=True))
    marked = [int(row["index"]) for row in rows(page) if "⚠" in row["spills"]]
    assert marked == [1]
    assert {row["index"]: row["registers"] for row in rows(page)}["3"] == "27"
    filter_by(page, "layer 0 matmul")
    select_row(page, 0)
    detail = page.value("document.getElementById('detail').textContent")
    assert "spills: it keeps values in memory" in detail
    assert "11.0 µs beside" in detail
    page.value("document.querySelector('#filter').value = ''")
    clean = document(8, static=True)
    clean["static"]["dispatches"][1].update(spills=0, flags=[])
    page = shown(clean)
    assert not [row for row in rows(page) if "⚠" in row["spills"]]


def test_without_static_numbers_there_are_no_columns_of_them(shown: Shown) -> None:
    assert not {"spills", "registers", "modelled"} & set(rows(shown(document(4)))[0])


@pytest.mark.parametrize(
    "name",
    [
        "</script><script>window.hacked = 1</script>",
        '<img src=x onerror="window.hacked = 1">',
        "\"'`${window.hacked = 1}\\",
        "🦊\u2028é\u202e<!--",
        "x" * 10_000,
    ],
    ids=["script", "image", "quotes", "emoji", "long"],
)
def test_names_are_text(shown: Shown, name: str) -> None:
    made = document(6, layer=name + " {}", name=name, static=True, host=True)
    made["segments"][0]["buffers"][0]["name"] = name
    made["segments"][0]["commands"][0]["label"] = name
    made["kernels"]["matmul/tile"]["glsl"] = name + "\n" + made["kernels"]["matmul/tile"]["glsl"]
    page = shown(made)
    draw_all(page)
    choose(page, "table", "layer")
    choose(page, "table", "dispatch")
    filter_by(page, "matmul")
    select_row(page, 0)
    page.wait("document.querySelector('#detail h2') !== null")
    assert page.value("typeof window.hacked") == "undefined"
    assert page.value("document.querySelectorAll('img, script:not(#data)').length") == 1
    said = page.value("document.querySelector('#detail h2').textContent")
    assert said[:-2] == name or (len(name) > 600 and "10,002 characters" in said)
    width = page.value("document.documentElement.scrollWidth - window.innerWidth")
    assert width <= 0


def test_the_policy_stops_foreign_scripts(tab: Page, tmp_path: Path) -> None:
    save(document(2), tmp_path / "report.html")
    tab.open(tmp_path / "report.html")
    tab.value("""{const script = document.createElement('script');
        script.textContent = 'window.hacked = 1'; document.body.append(script)}""")
    tab.value("document.body.insertAdjacentHTML('beforeend', '<img src=\"https://a.example/\">')")
    assert tab.value("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in said for said in tab.console)
    tab.wait("document.querySelector('img').complete")
    assert tab.blocked == ["csp"]


def test_dark_and_light(shown: Shown) -> None:
    page = shown(document(4))
    colours = []
    for scheme in ("dark", "light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.call("Emulation.setEmulatedMedia", features=features)
        colour = page.value("getComputedStyle(document.body).backgroundColor")
        colours.append(sum(map(int, re.findall(r"\d+", colour))) / 3)
    page.call("Emulation.setEmulatedMedia", features=[])
    assert colours[0] < 60
    assert colours[1] > 200


def test_printing_draws_everything(shown: Shown) -> None:
    page = shown(document(300))
    assert page.value("document.querySelectorAll('#memory .piece').length") == 0
    page.value("window.dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print")
    assert len(rows(page)) == 200
    assert "first 200 are printed" in page.value("document.getElementById('rows-note').textContent")
    assert page.value("document.querySelectorAll('#memory .piece').length") > 200
    assert page.value("getComputedStyle(document.querySelector('nav.parts')).display") == "none"
    page.call("Emulation.setEmulatedMedia", media="")
    page.value("window.dispatchEvent(new Event('afterprint'))")
    assert len(rows(page)) < 100


@pytest.mark.slow
def test_a_printed_page_has_all_parts(shown: Shown) -> None:
    pdf = shown(document(100)).call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert base64.b64decode(pdf).count(b"/Type /Page\n") >= 4


@pytest.mark.parametrize(
    ("dispatches", "options"),
    [(1, {"runs": 1}), (3, {"runs": 1, "host": True}), (2, {"limits": False})],
)
def test_small_profiles(shown: Shown, dispatches: int, options: dict[str, Any]) -> None:
    made = document(dispatches, **options)
    page = shown(made)
    draw_all(page)
    assert len(rows(page)) == dispatches + ("host" in options)


def test_a_profile_of_nothing(shown: Shown) -> None:
    made = document(2)
    made["segments"][0].update(commands=[], buffers=[], submits=[])
    for run in made["runs"]:
        run["segments"][0].update(spans=[], submits=[])
    page = shown(made)
    assert "nothing that is computed" in page.value("document.body.textContent")


def test_numpy_alone(shown: Shown) -> None:
    made = document(2, host=True)
    made["device"] = None
    del made["segments"][0]
    for run in made["runs"]:
        del run["segments"][0]
    page = shown(made)
    draw_all(page)
    assert [row["kernel"] for row in rows(page)] == ["numpy"]


def test_an_address_names_a_dispatch(shown: Shown, tmp_path: Path) -> None:
    page = shown(document(8))
    page.value("window.location.hash = 'dispatch=5'")
    page.wait("document.querySelector('#detail dd') !== null")
    assert page.value("document.querySelector('#detail dd').textContent") == "5"
    page.value("window.location.hash = 'dispatch=99'")
    assert page.value("document.querySelector('#detail dd').textContent") == "5"
