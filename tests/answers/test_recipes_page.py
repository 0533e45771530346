"""The page on recipes: its examples are recipes, and it has every key and every recipe."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from vknn.answers.decoder import DECODERS
from vknn.answers.members import Members, key_of
from vknn.answers.recipe import built_in, read_recipe


def subclasses(kind: type) -> set[type]:
    """The class and all that are derived from it."""
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
EXAMPLES = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_are_recipes(text: str) -> None:
    read_recipe(json.loads(text), "docs/recipes.md", Path(), "example")


def test_there_is_an_example_of_each_task() -> None:
    assert {json.loads(text)["task"] for text in EXAMPLES} == set(DECODERS)


def test_every_recipe_that_comes_with_vknn_is_listed() -> None:
    rows = PAGE.partition("## Recipes that come with vknn")[2]
    table = re.findall(r"^\| (\w+) \| (`.*) \|$", rows, re.MULTILINE)
    listed = {task: set(re.findall(r"`([^`/]+)`", row)) for task, row in table}
    found: dict[str, set[str]] = {task: set() for task in DECODERS}
    for recipe in built_in():
        found[recipe.task].add(recipe.name)
    assert listed == found


def test_every_kind_and_key_is_there() -> None:
    """Keys are the members of decoders and of what is in them, and what recipe.py reads by name."""
    folder = Path(__file__).parents[2] / "src" / "vknn" / "answers"
    take = "text|texts|choice|number|numbers|whole|flag|each|inner|raw"
    read = rf'(?:{take})\(\s*"(\w+)"'
    keys = {key for path in folder.glob("*.py") for key in re.findall(read, path.read_text())}
    for kind in subclasses(Members):
        keys |= {key_of(member) for member in dataclasses.fields(kind)}
    kinds = {kind for kinds in DECODERS.values() for kind in kinds if len(kinds) > 1}
    assert len(keys) > 40
    assert {word for word in keys | kinds if f"`{word}`" not in PAGE} == set()
