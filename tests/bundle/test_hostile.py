"""Hostile bundles: each rule of runner/check.c is broken by a case, whose message names it."""

from __future__ import annotations

import re
import subprocess

import pytest
from tests.bundle import check_program, mutations
from tests.bundle.broken_rules import CASES

FILE = 1


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return mutations.rich_bundle(tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="module")
def messages(bundle: bytes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Status and message of each case."""
    broken = (mutations.changed(bundle, change) for change, _ in CASES.values())
    told = check_program.opened(broken, tmp_path_factory.mktemp("hostile"))
    return dict(zip(CASES, told, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_broken_rule_is_named(messages: dict[str, tuple[int, str]], name: str) -> None:
    status, message = messages[name]
    assert status == FILE, message
    place = re.sub(r"(\w+) (\d+) ", r"\1, record \2, field ", CASES[name][1])
    assert place in message and "vknn export" in message


def rules() -> set[tuple[str, str]]:
    """Field and rule of each check, as the compiler sees them."""
    command = [check_program.compiler(), "-E", "-P", str(check_program.RUNNER / "check.c")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = re.sub(r"\s+", " ", made)
    call = r'return damaged\(b, [^"]*?, "([^"]+)", \(uint64_t\)[^"]*?, ("[^"]*"|fault)\)'
    found = {(field, rule.strip('"')) for field, rule in re.findall(call, made)}
    faults = re.findall(r'(?:return|NULL :|\?) ("that [^"]+")', made)
    return {pair for pair in found if pair[1] != "fault"} | {
        ("module", fault.strip('"')) for fault in faults
    }


#: They have tests of their own.
ELSEWHERE = ("of equal sums", "that the file has this size", "MOST_VISITS")


def test_each_rule_has_a_case_that_breaks_it(messages: dict[str, tuple[int, str]]) -> None:
    told = "\n".join(message for _, message in messages.values())
    wanted = [pair for pair in rules() if not any(part in pair[1] for part in ELSEWHERE)]
    assert len(wanted) > 120
    assert not [
        (field, rule)
        for field, rule in wanted
        if not re.search(rf"field {re.escape(field)}: .* the rule {re.escape(rule)}\. ", told)
    ]
