"""What a page is drawn from: numbers against the profile's own, bad documents, untrusted names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest
from tests.reports.documents import document, medians

from vknn.errors import VknnError
from vknn.profiling import Profile
from vknn.reports import page
from vknn.reports.data import report_data

HOSTILE = "</script><script>document.title = 'no'</script><!-- \"'&\u2028 🦊"


def test_numbers_are_those_of_the_profile() -> None:
    made = document(30, host=True)
    data = report_data(made)
    profile = Profile.from_document(made)
    assert data["commands"]["median"] == pytest.approx(
        [t.median for t in profile.timings], abs=1e-3
    )
    assert data["commands"]["least"] == pytest.approx([t.least for t in profile.timings], abs=1e-3)
    assert data["commands"]["median"] == pytest.approx(medians(made), abs=1e-3)
    assert data["total"] == pytest.approx(profile.total, abs=1e-2)


def test_the_timeline_is_the_run_of_median_length() -> None:
    made = document(5, runs=3)
    for run, seconds in zip(made["runs"], (9.0, 1.0, 2.0), strict=True):
        run["seconds"] = seconds
    data, shown = report_data(made), made["runs"][2]["segments"][0]
    begins = [(shown["start"] + begin) * 1e6 for begin, _ in shown["spans"]]
    assert data["commands"]["begin"] == pytest.approx(begins, abs=1e-3)
    assert data["run"] == 2e6


def test_sources_that_share_lines_hold_them_once() -> None:
    data = report_data(document(8))
    assert len(data["sources"]) == 4
    assert len(data["lines"]) == len(set(data["lines"]))
    text = "\n".join(data["lines"][n] for n in data["sources"][1]["lines"])
    assert text == document(8)["kernels"]["matmul/tile"]["glsl"]


def test_compiled_numbers_belong_to_their_dispatch() -> None:
    made = document(8, static=True)
    made["static"]["dispatches"].reverse()  # matched by what they are, not by place
    entries = report_data(made)["static"]["entries"]
    assert [e["registers"] for e in entries] == [24 + i for i in range(8)]
    assert [e.get("flags") for e in entries].count(["spills"]) == 1


def test_dispatches_that_a_static_profile_lacks_have_no_numbers() -> None:
    made = document(4, static=True)
    del made["static"]["dispatches"][2]
    found = report_data(made)["static"]["entries"]
    assert [entry is None for entry in found] == [False, False, True, False]


def test_nothing_in_a_name_ends_the_block_of_data() -> None:
    text = page(document(2, layer=HOSTILE + "{}", name=HOSTILE))
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert block is not None
    assert not set("<>&\u2028\u2029") & set(block[1])
    assert json.loads(block[1])["title"] == HOSTILE


def test_halves_of_surrogate_pairs_are_no_error() -> None:
    assert "\\ud800" not in page(document(2, layer="\ud800{}"))


def test_policy_names_the_style_and_the_script() -> None:
    text = page(document(2))
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    policy = dict(part.strip().split(" ", 1) for part in found[1].split(";"))
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in found[1]
    for tag, source in (("style", "style-src"), ("script", "script-src")):
        body = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert policy[source] == f"'sha256-{digest}'"


def test_a_page_names_no_other_place() -> None:
    text = page(document(2))
    named = set(re.findall(r"\w+://[^\"'\s]*", text))
    assert named <= {"http://www.w3.org/2000/svg"}
    assert "innerHTML" not in text
    assert "outerHTML" not in text


def test_long_names_are_shortened() -> None:
    text = page(document(200, layer="x" * 10_000 + "{}"))
    assert "(10,001 characters)" in text
    assert len(text) < 500_000


def _broken(change: Any) -> dict[str, Any]:
    made = document(3)
    change(made)
    return made


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="other"), "format is not 'vkprof'"),
        (lambda d: d.update(runs=[]), "has no run"),
        (lambda d: d.pop("segments"), "segments"),
        (lambda d: d["runs"][0]["segments"].pop(), "argument"),
        (lambda d: d["runs"][0]["segments"][0]["spans"].pop(), "not 3 pairs"),
        (lambda d: d["runs"][0]["segments"][0]["spans"].__setitem__(0, [0, "x"]), "unsupported"),
        (
            lambda d: d["runs"][0]["segments"][0]["spans"].__setitem__(0, [0, float("nan")]),
            "not 3 pairs of finite",
        ),
        (lambda d: d["segments"][0]["commands"][0].update(flops="many"), "no number"),
        (lambda d: d["segments"][0]["buffers"][0].update(nbytes=-1), "not a count"),
        (lambda d: d["segments"][0]["commands"][0]["bindings"][0].update(buffer=0.5), "a count"),
        (lambda d: d["limits"]["fma"].update(form=float("inf")), "not finite"),
    ],
)
def test_incomplete_documents_say_so(change: Any, words: str) -> None:
    with pytest.raises(VknnError, match=words):
        page(_broken(change))
