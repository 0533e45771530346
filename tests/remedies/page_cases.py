"""Remedies of pages of profiles."""

from __future__ import annotations

import json
from pathlib import Path

from tests.remedies.case import HOST, Case, Place
from tests.reports.documents import LIMITS

import vknn


def profiled(place: Place, *argv: object) -> None:
    place.command("profile", place.model, "--shape", "3,8,8", "--runs", 1, *HOST, *argv)


def with_limits(place: Place, *argv: object) -> None:
    (place.folder / "limits.json").write_text(json.dumps(LIMITS))
    profiled(place, "--device-limits", place.folder / "limits.json", *argv)


def reported(place: Place, *argv: object) -> None:
    saved, verified = place.folder / "a.vkprof", place.folder / "v.json"
    vknn.profile(place.model, place.feeds, device="cpu", runs=1, warmup=0).save(saved)
    verified.write_text(vknn.verify(place.model, place.feeds, device="cpu").to_json())
    place.command("report", saved, "--verify", verified, *argv)


def page(place: Place) -> Path:
    return place.folder / "a.html"


CASES = [
    Case(
        "--html is a page of what is measured: leave out --static",
        lambda p: profiled(p, "--static", "--html", page(p)),
        lambda p: profiled(p, "--html", page(p)),
    ),
    Case(
        "--device-limits needs --save or --html",
        with_limits,
        lambda p: with_limits(p, "--html", page(p)),
    ),
    Case("--verify needs --html", reported, lambda p: reported(p, "--html", page(p))),
]
